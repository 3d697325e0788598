"""Actors: participants as state machines that do no input or output of their own.

An actor is told the time, handed messages, and answers with effects; a runtime carries them out.
It never touches a socket, a clock or a global generator: randomness and the sealer are given to it
at construction. The runtime seals messages on their way and vouches for their senders; an actor
itself seals only what others are to carry unread. The contract with every runtime, in memory or
live:

* after each call the runtime makes ``state()`` and the returned effects durable **together**, and
  only then carries out any effect. A crash before that point undoes the call; a crash after it
  repeats the effects. That alone gives crash safety, so an actor must accept a repeated message.
* a message may be lost, late, duplicated or overtaken. An actor that needs an answer asks again
  with the same bytes until it has one.
* ``resume(state)`` on an actor newly made by a :data:`Maker` continues where ``state()`` was taken;
  its draws after that must not depend on how much was drawn before the crash.
* a device needs its owner's value in ``start`` alone: what later calls need of it is part of
  ``state()``, so that a runtime reads an answer once and resumes without it.
* bytes that do not decode, or that come from a party with no business sending them, change nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from numpy.typing import NDArray

from incrowd.errors import InvalidParameter

Address = str
"""A party such as ``"curator"``, ``"shuffler"`` or ``"device/17"``."""

CURATOR: Final[Address] = "curator"
SHUFFLER: Final[Address] = "shuffler"
COURIER: Final[Address] = "courier"
_DEVICE, _SPARE = "device/", "spare/"


def devices(people: int) -> tuple[Address, ...]:
    """Return the addresses of everyone's device."""
    return tuple(map(device, range(people)))


def device(person: int) -> Address:
    """Return the address of one person's device."""
    return f"{_DEVICE}{person}"


def person_of(address: Address) -> int:
    """Return the person whose device this is."""
    return int(address.removeprefix(_DEVICE))


def is_device(address: Address) -> bool:
    """Whether this party is one person's device."""
    return address.startswith(_DEVICE)


def owned(value: NDArray[Any] | None) -> NDArray[Any]:
    """Return the owner's value, which a device has when it starts and not when it resumes."""
    if value is None:
        raise InvalidParameter("a device needs its owner's value to start")
    return value


def stands_by(address: Address) -> bool:
    """Whether this party is there to replace another one."""
    return address.startswith(_SPARE)


@dataclass(frozen=True, slots=True)
class Message:
    """Bytes that arrived, with the address they claim to come from."""

    sender: Address
    body: bytes


@dataclass(frozen=True, slots=True)
class Send:
    """Deliver these bytes, sealed; the runtime may lose, delay, repeat or reorder them."""

    to: Address
    body: bytes


@dataclass(frozen=True, slots=True)
class Wake:
    """Call ``wake`` at this time or soon after; a later ``Wake`` replaces an earlier one."""

    at: float


@dataclass(frozen=True, slots=True)
class Done:
    """Finish with an output; the actor may say so again, and goes on answering repeats."""

    output: Any = None


Effect = Send | Wake | Done


class Sealer(Protocol):
    """Seals bytes that others carry, so that only one party can open them.

    Nothing of who sealed them is inside. Bytes can also be sealed to a one-time key, known only to
    its owner: a secret of 32 random bytes, and its public half.
    """

    def seal(self, to: Address, plain: bytes) -> bytes:
        """Seal bytes so that only ``to`` can open them."""

    def open(self, sealed: bytes) -> bytes:
        """Open bytes sealed to this party; ``ValueError`` when they were not."""

    def public_of(self, secret: bytes) -> bytes:
        """Return the public half of a one-time key, of as many bytes."""

    def seal_to(self, public: bytes, plain: bytes) -> bytes:
        """Seal bytes to the owner of a one-time key; ``ValueError`` if it is none."""

    def open_with(self, secret: bytes, sealed: bytes) -> bytes:
        """Open bytes sealed to a one-time key; ``ValueError`` when they were not."""


class NullSealer:
    """No cryptography: simulations study the protocol, not the ciphers."""

    def open(self, sealed: bytes) -> bytes:
        """Return the bytes themselves."""
        return sealed

    def seal(self, _to: Address | bytes, plain: bytes) -> bytes:
        """Return the bytes themselves."""
        return plain

    public_of, seal_to, open_with = open, seal, seal


class Actor(ABC):
    """The interface that ``sim`` and ``live`` play."""

    @abstractmethod
    def start(self, now: float) -> list[Effect]:
        """Begin; called once, and never after ``resume``."""

    @abstractmethod
    def receive(self, message: Message, now: float) -> list[Effect]:
        """Take in one message, perhaps not for the first time."""

    @abstractmethod
    def wake(self, now: float) -> list[Effect]:
        """Act at the time asked for by the last ``Wake``, or soon after."""

    @abstractmethod
    def state(self) -> bytes:
        """Encode everything needed to continue after a crash."""

    @abstractmethod
    def resume(self, state: bytes) -> None:
        """Continue from a state; called instead of ``start``."""


Maker = Callable[[], Actor]
"""Makes one actor in its first state; called again to rebuild it after a crash."""
