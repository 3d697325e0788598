"""Learning: models, per-example gradients, clipping, channels, checkpoints, and one trainer.

Every SGD of the project is :class:`SGD` with a channel of its own; a protocol adds how gradients
travel and what that costs, and nothing else. ``docs/learning.md`` is the guide.
"""

from incrowd.tasks.learning.channels import (
    CentralNoise,
    Channel,
    Crowd,
    LocalNoise,
    LocalReports,
    NoPrivacy,
    VectorReports,
)
from incrowd.tasks.learning.features import Bounds, RandomFourier, RandomProjection, UnitBall
from incrowd.tasks.learning.gradients import Batch, DenseGradients, Gradients, OuterGradients
from incrowd.tasks.learning.learners import CentralSGD, LocalSGD, PlainSGD
from incrowd.tasks.learning.models import SVM, Linear, Logistic, Model, Ridge, Softmax
from incrowd.tasks.learning.network import TorchModule
from incrowd.tasks.learning.privacy import SubsampledGaussian
from incrowd.tasks.learning.sgd import SGD, Round

__all__ = [
    "SGD",
    "SVM",
    "Batch",
    "Bounds",
    "CentralNoise",
    "CentralSGD",
    "Channel",
    "Crowd",
    "DenseGradients",
    "Gradients",
    "Linear",
    "LocalNoise",
    "LocalReports",
    "LocalSGD",
    "Logistic",
    "Model",
    "NoPrivacy",
    "OuterGradients",
    "PlainSGD",
    "RandomFourier",
    "RandomProjection",
    "Ridge",
    "Round",
    "Softmax",
    "SubsampledGaussian",
    "TorchModule",
    "UnitBall",
    "VectorReports",
]
