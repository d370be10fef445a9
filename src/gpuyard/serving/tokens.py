"""How clients show the token that a server wants."""

from __future__ import annotations

import hmac


def shows_token(given: bytes, token: str) -> bool:
    """Whether an authorization is `Bearer TOKEN`; how the scheme is spelled does not matter."""
    scheme, _, shown = given.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(shown.strip(), token.encode())
