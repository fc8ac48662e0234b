"""What users record themselves: tasks, frames, events, counters and markers of domains, and scopes."""

from __future__ import annotations

from typing import Any

from hybridc.errors import AttributeValueError, ProfilerObjectError
from hybridc.ground.events import RECORDER, RecordedSpan, now

_SCOPES = ("global", "process", "thread", "task", "marker")


class Domain:
    """A group of tasks, frames, counters and markers: their category in traces and tables.

    Parameters
    ----------
    name : str
        The name of the domain.
    """

    def __init__(self, name: str) -> None:
        self.name = _text("Domain", name)

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """A new task of this domain, called ``name``."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """A new frame of this domain, called ``name``."""
        return Frame(self, name)

    def new_counter(self, name: str, value: int | None = None) -> Counter:
        """A new counter of this domain, called ``name``, which begins with ``value``; None is 0, unrecorded."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """A new marker of this domain, called ``name``."""
        return Marker(self, name)


class _Duration:
    """Something between ``start`` and ``stop``, which may be on different threads."""

    def __init__(self, category: str, name: str, nested: bool) -> None:
        self.name = name
        self._category = category
        self._nested = nested
        self._begin: int | None = None

    def start(self) -> None:
        """Begin."""
        self._begin = now()

    def stop(self) -> None:
        """End: it is recorded if the profiler runs now, and if it was begun."""
        begin, self._begin = self._begin, None
        if RECORDER.active and begin is not None:
            RECORDER.span(RecordedSpan(self._category, self.name, begin, now(), RECORDER.thread(), None, self._nested))

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __str__(self) -> str:
        return self.name


class Task(_Duration):
    """A unit of work of a domain, as often as it is started and stopped; tasks may overlap in any way.

    Parameters
    ----------
    domain : Domain
        The domain to which it belongs.
    name : str
        The name of the task.
    """

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(_domain("Task", domain).name, _text("Task", name), nested=False)


class Frame(_Duration):
    """A pass of something that repeats, such as an epoch, of a domain.

    Parameters
    ----------
    domain : Domain
        The domain to which it belongs.
    name : str
        The name of the frame.
    """

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(f"{_domain('Frame', domain).name},frame", _text("Frame", name), nested=False)


class Event(_Duration):
    """A part of a thread's work, which nests with what else the thread does.

    Parameters
    ----------
    name : str
        The name of the event.
    """

    def __init__(self, name: str) -> None:
        super().__init__("event", _text("Event", name), nested=True)


class Counter:
    """A number that changes over time.

    Parameters
    ----------
    domain : Domain
        The domain to which it belongs.
    name : str
        The name of the counter.
    value : int, optional
        Its first value.
    """

    def __init__(self, domain: Domain, name: str, value: int | None = None) -> None:
        self.name = _text("Counter", name)
        self._category = _domain("Counter", domain).name
        self._value = 0
        if value is not None:
            self.set_value(value)

    def set_value(self, value: int) -> None:
        """Set the ``value``; fractions are cut off."""
        self._value = int(value)
        if RECORDER.active:
            RECORDER.sample(self._category, self.name, self._value)

    def increment(self, delta: int = 1) -> None:
        """Add ``delta`` to the value."""
        self.set_value(self._value + int(delta))

    def decrement(self, delta: int = 1) -> None:
        """Subtract ``delta`` from the value."""
        self.set_value(self._value - int(delta))

    def __iadd__(self, delta: int) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: int) -> Counter:
        self.decrement(delta)
        return self

    def __str__(self) -> str:
        return self.name


class Marker:
    """An instant.

    Parameters
    ----------
    domain : Domain
        The domain to which it belongs.
    name : str
        The name of the marker.
    """

    def __init__(self, domain: Domain, name: str) -> None:
        self.name = _text("Marker", name)
        self.domain = _domain("Marker", domain)

    def mark(self, scope: str = "process") -> None:
        """Mark this instant.

        Parameters
        ----------
        scope:
            For what it counts, and how a viewer draws it: ``global``, ``process``, ``thread``, ``task`` or
            ``marker``; others are an AttributeValueError.
        """
        if scope not in _SCOPES:
            names = ", ".join(map(repr, sorted(_SCOPES)))
            raise AttributeValueError(f"Invalid Input: '{scope}', valid values are: {{{names}}}")
        if RECORDER.active:
            RECORDER.mark(f"{self.domain.name},instant_marker", self.name, scope)


class Scope(_Duration):
    """``with mx.profiler.scope("name:"):`` is a span around what runs in the block; MXNet names memory by it.

    Parameters
    ----------
    name:
        The name of the span; a colon is added at its end.
    """

    def __init__(self, name: str = "<unk>:") -> None:
        name = _text("scope", name)
        super().__init__("scope", name if name.endswith(":") else f"{name}:", nested=True)


scope = Scope


def _text(what: str, name: Any) -> str:
    """A name, which MXNet's ``encode`` wants to be a string."""
    if not isinstance(name, str):
        raise ProfilerObjectError(f"{what}: name must be a string, got {name!r} of type {type(name).__name__}")
    return name


def _domain(what: str, domain: Any) -> Domain:
    if not isinstance(domain, Domain):
        raise ProfilerObjectError(
            f"{what}: domain must be a mx.profiler.Domain, got {domain!r} of type {type(domain).__name__}; use "
            f"domain.new_{what.lower()}(name)"
        )
    return domain
