"""Several questions in one survey: a protocol for each, played at the same time."""

from incrowd.protocols.joint.spec import JointProtocol

__all__ = ["JointProtocol"]
