"""What a studio was started with."""

from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe

__all__ = ["Settings"]

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Settings:
    """What a studio was started with: files, the account, limits, and the secrets of this run.

    ``file`` is the table named on the command line, ``ledger`` and ``dataset`` the account that
    releases spend from. ``token`` opens the first page once, ``cookie`` is what it is exchanged
    for; both are drawn anew for every run. ``upload`` and ``body`` are the most bytes of an upload
    and of any other request, ``seconds`` the longest that a request may take.

    >>> Settings(port=8000).hosts
    ('127.0.0.1:8000', 'localhost:8000')
    """

    port: int = 0
    file: Path | None = None
    demo: bool = False
    ledger: str | None = field(default=None, repr=False)  # an address may hold a password
    dataset: str | None = None
    key: Path | None = None
    read_only: bool = False
    upload: int = 1024 * MEBIBYTE
    body: int = 4 * MEBIBYTE
    seconds: float = 30.0
    upload_seconds: float = 600.0
    token: str = field(default_factory=lambda: token_urlsafe(32), repr=False)
    cookie: str = field(default_factory=lambda: token_urlsafe(32), repr=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names by which a browser on this machine may call the studio."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def cookie_name(self) -> str:
        """The name of the cookie; browsers share cookies between ports, so it has the port."""
        return f"undertow-studio-{self.port}"

    @property
    def address(self) -> str:
        """Where the studio is, without the token."""
        return f"http://127.0.0.1:{self.port}/"

    @property
    def first_address(self) -> str:
        """The address to open first, once."""
        return f"{self.address}?token={self.token}"
