"""Flipped and redacted series on every kind of model: which bound applies."""

from undertow.adversaries import Against
from undertow.bounds.series.local import local_leakage
from undertow.bounds.series.redaction import redaction_leakage
from undertow.certificate import Leakage
from undertow.channels import LocalMechanism, RandomizedResponse, Redaction, flips_epsilon_upper
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import PureDP
from undertow.models.markov import MarkovChain
from undertow.models.sets import SingleModel

__all__ = ["chain_leakage", "level_of"]


def chain_leakage(
    mechanism: LocalMechanism, chain: MarkovChain, against: Against, effort: int
) -> Leakage:
    """Return the leakage of a local mechanism on a chain.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=5)
    >>> round(chain_leakage(RandomizedResponse.binary(.02, .02), chain, "any", 2).upper, 6)
    9.407942
    """
    if isinstance(mechanism, Redaction):
        return redaction_leakage(mechanism, chain, against)
    if mechanism.inputs != chain.size:
        raise InvalidInput(
            f"the mechanism is for {mechanism.inputs} states, the chain has {chain.size}; they "
            "must agree"
        )
    return local_leakage(mechanism, chain, against, effort)


def level_of(mechanism: LocalMechanism, model: SingleModel) -> PureDP:
    """Return the DP level through which other models see a channel, or refuse.

    >>> from undertow.models.groups import Groups
    >>> round(level_of(RandomizedResponse.binary(.25, .25), Groups(3)).epsilon, 6)
    1.098612
    """
    if not isinstance(mechanism, RandomizedResponse):
        raise NotSupported(
            f"what {type(mechanism).__name__} leaks is known for a MarkovChain, found "
            f"{model.describe()}; use a chain, or a ModelSet of chains"
        )
    return PureDP(flips_epsilon_upper(mechanism))
