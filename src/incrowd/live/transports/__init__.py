"""The ways sealed cells travel: in this process, through the hub, directly, or over NATS."""
