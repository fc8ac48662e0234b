"""The structure of the package: imports point one way, and one name is one thing."""

from __future__ import annotations

import ast
import functools

from tests import docstring_names, house, names


@functools.cache
def all_imports():
    """Everything that the modules of the package import: reading them takes seconds."""
    return house.all_imports(house.modules())


def imports():
    """The imports among them."""
    return house.ours(all_imports())


def test_imports_point_upwards_in_the_list_of_layers():
    wrong = house.upwards(imports())
    assert not wrong, "a layer imports a later one:\n" + "\n".join(map(str, wrong))


def test_targets_print_what_was_decided_above_them():
    wrong = house.decisions(imports())
    assert not wrong, "a target imports an analysis, a pass or a schedule:\n" + "\n".join(map(str, wrong))


def test_every_module_has_a_layer_and_every_layer_a_module():
    used = {house.layer(name) for name in house.modules()}
    assert used == set(range(len(house.LAYERS)))


def test_no_files_import_each_other():
    found = house.circles(imports())
    assert not found, "these files import each other:\n" + "\n".join(", ".join(sorted(circle)) for circle in found)


def test_types_lead_to_no_later_layer():
    for circle in house.circles(imports(), typing=True):
        assert len({house.layer(name) for name in circle}) == 1, (
            f"these files import each other, if for types only: {', '.join(sorted(circle))}"
        )


def test_imports_inside_functions_are_listed_with_a_reason():
    found = all_imports()
    wrong = house.not_listed(found)
    assert not wrong, "move to the top, or add to LATE in tests/house.py:\n" + "\n".join(map(str, wrong))
    assert not house.not_needed(found), "entries of LATE in tests/house.py that nothing needs"


def test_no_two_classes_have_one_name():
    found = {name: where for name, where in house.classes(house.modules()).items() if len(where) > 1}
    wrong = {name: where for name, where in found.items() if name not in house.LAYERS_AND_OPERATORS}
    assert not wrong, f"rename all but one: {wrong}"


def test_no_two_files_have_one_name():
    wrong = {name: paths for name, paths in house.files(house.modules()).items() if len(paths) > 1}
    assert not wrong, f"rename all but one: {wrong}"


def test_no_two_functions_of_the_compiler_have_one_name():
    found = house.compiler_functions(house.modules())
    wrong = {name: where for name, where in found.items() if len({*where}) > 1}
    assert not wrong, f"rename all but one: {wrong}"


def test_types_that_all_use_are_declared_once():
    assert house.aliases(house.modules()) == {name: [module] for name, module in house.ALIASES.items()}


def test_a_folder_has_about_a_dozen_files():
    sizes = house.folders(house.modules())
    wrong = {name: n for name, n in sizes.items() if n > house.MOST_FILES.get(name, 16)}
    assert not wrong, f"make a folder of what belongs together: {wrong}"


def test_numbers_say_why_they_have_their_values():
    wrong = [where for where, explained in house.constants(house.modules()) if not explained]
    assert not wrong, "say why, or take it from the cost model:\n" + "\n".join(wrong)


def test_messages_leave_the_root_logger_to_the_program():
    wrong = house.root_logger_calls(house.modules())
    assert not wrong, "call the method of logging.getLogger():\n" + "\n".join(wrong)


def test_dataclasses_take_little_time_to_define():
    wrong = house.slow_dataclasses(house.modules())
    assert not wrong, "take dataclass from hybridc.ground.records:\n" + "\n".join(wrong)


def test_attributes_are_read_and_written_as_notes():
    wrong = house.attributes_by_name(house.modules())
    assert not wrong, "use the note of this attribute, of which there is one:\n" + "\n".join(wrong)


def test_names_say_what_a_variable_or_field_of_the_compiler_is():
    places = [place for listed in names.vague(house.modules()).values() for place in listed]
    assert not places, "say what it is:\n" + "\n".join(places)


def test_vague_names_are_those_of_variables_and_fields():
    tree = ast.parse(
        "class C:\n    made: int\n\n    @cached_property\n    def shown(self): ...\n\n"
        "    def held(self, given): ...\n\n"
        "def f(*each, **here):\n    self.number = [taken for x, (taken, *_) in again.found]\n"
        "    with there as turned: ...\n    return lambda found: found\n"
    )
    bound = {name for name, _ in names.bindings(tree)} & names.VAGUE
    assert bound == {"made", "shown", "given", "each", "here", "number", "taken", "turned", "found"}


def test_class_docstrings_name_members():
    unknown = {*docstring_names.package(house.modules()).unknown()}
    apart = {entry for entries in docstring_names.APART.values() for entry in entries}
    assert not unknown - apart, "the docstrings of these classes name what is not there:\n" + "\n".join(unknown - apart)
    assert not apart - unknown, "entries of APART in tests/docstring_names.py that nothing needs"


def test_a_name_that_a_class_lacks_is_unknown(tmp_path):
    (tmp_path / "parts.py").write_text(
        "class Base:\n    size: int\n\n\nclass Part(Base):\n"
        '    """``size`` at ``place(x, way)``: ``way``, ``other``, ``Base.size``, ``Base.gone``, ``x1``, '
        '``"lost"``."""\n'
    )
    parts = docstring_names.package({"parts": tmp_path / "parts.py"})
    assert [*parts.unknown()] == ["Part: other", "Part: Base.gone", 'Part: "lost"']
