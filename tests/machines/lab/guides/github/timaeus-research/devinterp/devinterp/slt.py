"""What icl needs, and main does not have yet."""


def descend(weight: float, rate: float) -> float:
    """Return the weight after a step down the slope of its square."""
    return weight - rate * 2 * weight
