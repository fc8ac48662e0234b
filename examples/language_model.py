"""Train a language model of characters on Python's documentation, and let it write.

``make language-model``, or ``python examples/language_model.py`` with tqdm installed. The text is that of ``help()`` on
the language, which every Python ships; paragraphs that come again are left out, and the last tenth is held out. Two
LSTM layers read it in segments: states go on from segment to segment, gradients do not, and their norm is bounded. The
perplexity on the held-out text is 4.58; of the same model, trained from the same weights by PyTorch 2.13, it is 4.54
(``benchmarks/language_model.py``). All that is claimed is checked: that perplexity, that counting which character
follows which gives a higher one, that carried states help, and that most words that the model writes are words.
``--small`` is a run of seconds.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pydoc_data.topics import topics
from typing import Any

import numpy as np
from tqdm import tqdm

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.gluon import nn, rnn

SEED = 7
CLIP = 1.0  # of the norm of all gradients
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))  # a character's number is its place here
ASCII = str.maketrans("\u201c\u201d\u2018\u2019\u2013\u2014", "\"\"''--")  # quotation marks and dashes


@dataclass(frozen=True)
class Size:
    """How large the model and its training are, and what is to come of it."""

    hidden: int
    characters: int  # of the training text
    batch: int  # parts of a text that are read at once
    segment: int  # characters of each until the weights change
    epochs: int
    rate: float
    perplexity: float  # on the held-out text, to reach
    words: float  # the part of written words that are words, to reach


FULL = Size(hidden=128, characters=400_000, batch=32, segment=64, epochs=6, rate=1e-2, perplexity=4.8, words=0.8)
SMALL = Size(hidden=64, characters=80_000, batch=32, segment=16, epochs=3, rate=1.5e-2, perplexity=10.5, words=0.3)


class CharacterModel(gluon.HybridBlock):
    """The scores of the next character after each of a segment, and the states after the last."""

    def __init__(self, hidden: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embedding = nn.Embedding(len(CHARACTERS), 64)
            self.lstm = rnn.LSTM(hidden, num_layers=2)
            self.scores = nn.Dense(len(CHARACTERS), flatten=False)

    def hybrid_forward(self, F: Any, characters: Any, states: Any) -> Any:
        """For characters (T, N): scores (T, N, characters), and the states."""
        outputs, states = self.lstm(self.embedding(characters), states)
        return self.scores(outputs), states


def documentation() -> tuple[np.ndarray, np.ndarray]:
    """Python's documentation of the language as numbers of characters, for training and held out."""
    lines = "\n\n".join(topics.values()).translate(ASCII).splitlines()
    paragraphs = "\n".join(" ".join(line.split()) for line in lines).split("\n\n")
    text = "\n\n".join(dict.fromkeys(paragraphs))  # topics share parts: what is held out must not be trained on
    numbers = {character: number for number, character in enumerate(CHARACTERS)}
    found = np.array([numbers[c] for c in text if c in numbers], dtype="int32")
    train, held_out = np.split(found, [len(found) * 9 // 10])
    return train, held_out


def segments(text: np.ndarray, size: Size) -> list[tuple[np.ndarray, np.ndarray]]:
    """Characters (T, N) and those that follow them; rows of the batch are read on from segment to segment."""
    steps = (len(text) - 1) // size.batch // size.segment * size.segment
    inputs, targets = (text[i : i + steps * size.batch].reshape(size.batch, steps).T for i in (0, 1))
    return [(inputs[t : t + size.segment], targets[t : t + size.segment]) for t in range(0, steps, size.segment)]


def fresh_model(hidden: int) -> CharacterModel:
    """The untrained model, the same each time."""
    mx.random.seed(SEED)
    net = CharacterModel(hidden, prefix="model_")
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.zeros((1, 1), dtype="int32"), net.lstm.begin_state(1))  # infers the shapes of the parameters
    return net


def train(
    net: CharacterModel, text: np.ndarray, size: Size, after_epoch: Callable[[CharacterModel], float]
) -> list[float]:
    """Truncated backpropagation through time; what ``after_epoch`` finds after each epoch, which is printed."""
    batches = [tuple(mx.nd.array(part, dtype="int32") for part in pair) for pair in segments(text, size)]
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    loss_of.hybridize()
    schedule = mx.lr_scheduler.CosineScheduler(size.epochs * len(batches), base_lr=size.rate)
    parameters = net.collect_params()
    trainer = gluon.Trainer(parameters, "adam", {"learning_rate": size.rate, "lr_scheduler": schedule})
    found: list[float] = []
    with tqdm(total=size.epochs * len(batches), desc="training", unit="segment") as bar:
        for epoch in range(size.epochs):
            states = net.lstm.begin_state(size.batch)
            for characters, following in batches:
                states = [state.detach() for state in states]  # the gradient ends where the segment begins
                with autograd.record():
                    scores, states = net(characters, states)
                    loss = loss_of(scores, following).mean()
                loss.backward()
                gluon.utils.clip_global_norm([p.grad() for p in parameters.values()], CLIP)
                trainer.step(1)  # the loss is a mean already
                bar.update()
            found.append(after_epoch(net))
            bar.write(f"epoch {epoch + 1}: perplexity {found[-1]:.3f} on held-out text")
    return found


def perplexity(net: CharacterModel, text: np.ndarray, size: Size, carry: bool = True) -> float:
    """The exponential of the mean loss of a text; without ``carry`` each segment begins with states of zeros."""
    states = zeros = net.lstm.begin_state(size.batch)
    losses: list[float] = []
    for characters, following in segments(text, size):
        scores, states = net(mx.nd.array(characters, dtype="int32"), states if carry else zeros)
        picked = mx.nd.pick(mx.nd.log_softmax(scores), mx.nd.array(following))
        losses.append(-picked.mean().asscalar())
    return float(np.exp(np.mean(losses)))


def perplexity_of_pairs(text: np.ndarray, held_out: np.ndarray) -> float:
    """What counting gets: the probability of a character is how often it followed the one before it, plus one."""
    counts = np.ones((len(CHARACTERS), len(CHARACTERS)))
    np.add.at(counts, (text[:-1], text[1:]), 1)
    probabilities = counts / counts.sum(axis=1, keepdims=True)
    return float(np.exp(-np.log(probabilities[held_out[:-1], held_out[1:]]).mean()))


def write(net: CharacterModel, begin: str, length: int, temperature: float) -> str:
    """A text that goes on from ``begin``, each character drawn by its score; a low temperature draws the likely."""
    states = net.lstm.begin_state(1)
    text, unread = begin, begin
    for _ in range(length):
        numbers = mx.nd.array([[CHARACTERS.index(c)] for c in unread], dtype="int32")
        scores, states = net(numbers, states)
        unread = CHARACTERS[mx.random.multinomial(mx.nd.softmax(scores[-1, 0] / temperature)).asscalar()]
        text += unread
    return text


def part_of_words(written: str, text: str) -> float:
    """The part of the words of ``written`` that are in ``text``; the last, which may be cut off, does not count."""
    words, known = (re.findall(r"[a-z]{2,}", each.lower()) for each in (written, text))
    return sum(word in set(known) for word in words[:-1]) / max(len(words) - 1, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; the exit status says whether all claims hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a small model and a part of the text: seconds")
    parser.add_argument("--epochs", type=int, help="how often the text is read")
    parser.add_argument("--temperature", type=float, default=0.6, help="of what is written: below 1 is more careful")
    parser.add_argument("--begin", default="The ", help="what the written text begins with")
    options = parser.parse_args(arguments)
    size = SMALL if options.small else FULL
    size = replace(size, epochs=options.epochs or size.epochs)

    text, held_out = documentation()
    text = text[: size.characters]
    net = fresh_model(size.hidden)
    found = train(net, text, size, lambda net: perplexity(net, held_out, size))
    alone = perplexity(net, held_out, size, carry=False)
    counted = perplexity_of_pairs(text, held_out)

    written = write(net, options.begin, 600, options.temperature)
    print(f"\n--- written with temperature {options.temperature} ---\n{written}\n")
    words = part_of_words(written, "".join(CHARACTERS[i] for i in np.concatenate([text, held_out])))

    claims = [
        (f"perplexity {found[-1]:.3f} <= {size.perplexity}", found[-1] <= size.perplexity),
        (f"which is below {counted:.3f} of counted pairs of characters", found[-1] < counted),
        (f"and below {alone:.3f} of segments read without the states before", found[-1] < alone),
        (f"{words:.2f} >= {size.words} of the words written are words of the text", words >= size.words),
    ]
    for line, holds in claims:
        print(f"{'ok    ' if holds else 'FAILED'} {line}")
    return 0 if all(holds for _, holds in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
