"""What can be proven, independent of any protocol."""

from incrowd.privacy.composition import ComposedProfile, LossDistribution, connect_the_dots
from incrowd.privacy.fourier import Bracket
from incrowd.privacy.guarantee import Guarantee, Profile
from incrowd.privacy.local import LocalProfile
from incrowd.privacy.shuffle import ShuffleProfile, clones_law, functional
from incrowd.views import view_of

__all__ = [
    "Bracket",
    "ComposedProfile",
    "Guarantee",
    "LocalProfile",
    "LossDistribution",
    "Profile",
    "ShuffleProfile",
    "clones_law",
    "connect_the_dots",
    "functional",
    "view_of",
]
