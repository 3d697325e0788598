"""Neural networks: any ``torch.nn.Module``, with per-example gradients by ``torch.func``.

``vmap(grad(loss))`` runs the module once for all people of a round and keeps their gradients apart.
Layers that mix people, such as batch normalisation, have no gradient of one person and are refused.
The module is used in evaluation mode: nothing in it draws, so a person's gradient is a function of
the person's record and of the parameters, and nothing else.

Torch is imported when the first model is made: ``pip install 'incrowd[learn]'``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.extras import needed_extra
from incrowd.randomizers.base import FloatArray
from incrowd.randomness import Seeds
from incrowd.tasks.learning.gradients import DenseGradients, Gradients
from incrowd.tasks.learning.models import Classes, Model, class_codes, class_labels
from incrowd.tasks.raw import Array

if TYPE_CHECKING:
    import torch

_MOST_NUMBERS = 1 << 25
"""Numbers of gradients in memory."""
_PREDICTED_AT_ONCE = 4096


class TorchModule(Model):
    """A classifier made of a torch module that returns one score per class.

    ``module`` is a module, whose parameters are where training starts, or a function that makes
    one; that is called with torch's generator seeded from the root seed of the training. The module
    is never changed, and parameters that need no gradient stay as they are. Gradients are in single
    precision; parameters are kept in double.
    """

    def __init__(
        self, module: torch.nn.Module | Callable[[], torch.nn.Module], *, classes: Classes
    ) -> None:
        _load_torch()
        class_labels(classes)
        if not callable(module):
            wanted = "a torch module or a function that makes one"
            raise InvalidParameter(f"module must be {wanted}, got {module!r}")
        self.module, self.classes = module, classes
        self._net: torch.nn.Module | None = None

    def __repr__(self) -> str:
        name = getattr(self.module, "__name__", type(self.module).__name__)
        return f"TorchModule({name}, classes = {class_labels(self.classes).size})"

    def start(self, shape: tuple[int, ...], seeds: Seeds) -> FloatArray:
        """The parameters of the module as it is given, or as it is made."""
        torch = _load_torch()
        if isinstance(self.module, torch.nn.Module):
            net = copy.deepcopy(self.module)
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(seeds.generator("module").integers(2**63)))
                net = self.module()
            checks.instance(net, torch.nn.Module, "what module makes", "torch.nn.Linear(4, 2)")
        self._net = net.eval()
        self._check(shape)
        parts = [each.detach().reshape(-1).double().numpy() for _, each in self._trained()]
        return np.concatenate(parts)

    def _check(self, shape: tuple[int, ...]) -> None:
        torch, count = _load_torch(), class_labels(self.classes).size
        for each in self._made.modules():
            if "BatchNorm" in type(each).__name__:
                problem = "which mixes people, so nobody has a gradient of their own"
                found = f"the module has a {type(each).__name__}"
                raise InvalidParameter(f"{found}, {problem}: use GroupNorm or LayerNorm")
        if not self._trained():
            raise InvalidParameter("the module has no parameters that are to be trained")
        blank = torch.zeros((1, *shape), dtype=torch.float32)
        try:
            with torch.no_grad():
                scores = self._made(blank)
            if tuple(scores.shape) == (1, count):
                # One person's gradient, for modules that torch cannot take apart.
                self._gradients(dict(self._trained()), blank, torch.zeros(1, dtype=torch.int64))
        except (RuntimeError, TypeError, ValueError, IndexError) as wrong:
            first = str(wrong).splitlines()[0]
            raise InvalidParameter(f"the module takes no records of {shape}: {first}") from wrong
        if tuple(scores.shape) != (1, count):
            problem = f"{count} scores per record, one per class, got {tuple(scores.shape[1:])}"
            raise InvalidParameter(f"the module must return {problem}")

    def _trained(self) -> list[tuple[str, Any]]:
        return [each for each in self._made.named_parameters() if each[1].requires_grad]

    @property
    def _made(self) -> torch.nn.Module:
        if self._net is None:
            raise ProtocolFailed("the module is not started yet: call start first")
        return self._net

    def targets(self, labels: Array) -> Array:
        return class_codes(self.classes, labels)

    def gradients(self, theta: FloatArray, records: Array, targets: Array) -> Gradients:
        torch, own = _load_torch(), self._parameters(theta)
        found = self._gradients(own, self._tensor(records), torch.from_numpy(targets))
        flat = torch.cat([part.reshape(len(records), -1) for part in found.values()], dim=1)
        return DenseGradients(flat.numpy())

    def _gradients(self, parameters: dict[str, Any], records: Any, targets: Any) -> dict[str, Any]:
        func = _load_torch().func
        each = func.vmap(func.grad(self._loss), in_dims=(None, 0, 0))
        return dict(each(parameters, records, targets))

    def at_once(self, size: int) -> int:
        return max(1, _MOST_NUMBERS // size)

    def losses(self, theta: FloatArray, records: Array, targets: Array) -> FloatArray:
        torch = _load_torch()
        scores, wanted = torch.from_numpy(self._scores(theta, records)), torch.from_numpy(targets)
        found = torch.nn.functional.cross_entropy(scores, wanted, reduction="none")
        return np.asarray(found.double().numpy())

    def predict(self, theta: FloatArray, records: Array) -> Array:
        return np.asarray(class_labels(self.classes)[self._scores(theta, records).argmax(axis=1)])

    def describe(self) -> dict[str, Any]:
        names = [*map(str, class_labels(self.classes).tolist())]
        return {"model": "TorchModule", "layers": repr(self._made), "classes": names}

    def _loss(self, parameters: dict[str, Any], record: Any, target: Any) -> Any:
        torch = _load_torch()
        scores = torch.func.functional_call(self._made, parameters, (record[None],))
        return torch.nn.functional.cross_entropy(scores, target[None])

    def _scores(self, theta: FloatArray, records: Array) -> NDArray[np.float32]:
        torch, parameters = _load_torch(), self._parameters(theta)
        found = []
        with torch.no_grad():
            for first in range(0, len(records), _PREDICTED_AT_ONCE):
                some = self._tensor(records[first : first + _PREDICTED_AT_ONCE])
                found.append(torch.func.functional_call(self._made, parameters, (some,)).numpy())
        return np.concatenate(found)

    def _tensor(self, records: Array) -> Any:
        return _load_torch().from_numpy(np.ascontiguousarray(records, np.float32))

    def _parameters(self, theta: FloatArray) -> dict[str, Any]:
        trained = self._trained()
        flat = _load_torch().from_numpy(theta.astype(np.float32))
        parts = zip(trained, flat.split([each.numel() for _, each in trained]), strict=True)
        return {name: part.view(each.shape) for (name, each), part in parts}


def _load_torch() -> Any:
    with needed_extra("neural networks need", "use a linear model"):
        import torch
    return torch
