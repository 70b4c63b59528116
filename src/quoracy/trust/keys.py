"""The key of a member: Ed25519. The first join binds the member's id to it, every later one has to prove it.

What is signed is ``core.members.signed_by_joiner``: a challenge, the run, the member, the life it
follows and the nonce of the new one. A signature that was overheard is therefore good for nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from quoracy.core.errors import ConfigError
from quoracy.trust.files import create_file, create_new, read_secret

if TYPE_CHECKING:  # most processes that know a key never see a certificate
    from cryptography.x509 import Certificate, CertificateBuilder

PUBLIC_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
WHAT: Final = "member key"

_SIGN_BIT: Final = 1 << 255
_PRIME: Final = 2**255 - 19
_EIGHTH: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_WEAK: Final = frozenset({0, 1, _EIGHTH, _PRIME - _EIGHTH, _PRIME - 1, _PRIME, _PRIME + 1})
"""The points of small order, by their y. Under such a "key" one signature fits every message; OpenSSL takes them."""


class MemberKey:
    __slots__ = ("_private", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @classmethod
    def create(cls) -> MemberKey:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> MemberKey:
        """Raises ConfigError if the file is missing, open to others, or no such key."""
        try:
            private = load_pem_private_key(read_secret(path, WHAT), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            private = None
        if not isinstance(private, Ed25519PrivateKey):
            raise ConfigError(WHAT, str(path), "this file holds no unencrypted Ed25519 key in PEM")
        return cls(private)

    @classmethod
    def open(cls, path: Path) -> MemberKey:
        """The key in that file; a new one is made and saved if there is none. Two who ask at once get the same."""
        if not path.exists():
            create_file(path, cls.create()._pem(), WHAT)
        return cls.load(path)

    def save(self, path: Path) -> None:
        """Raises ConfigError if something is there: whoever loses a key loses the ids that are bound to it."""
        create_new(path, self._pem(), WHAT)

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def self_signed(self, builder: CertificateBuilder) -> tuple[Ed25519PrivateKey, Certificate]:
        """The key, which is a secret, and a certificate for it."""
        return self._private, builder.public_key(self._private.public_key()).sign(self._private, None)

    def _pem(self) -> bytes:
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def __repr__(self) -> str:
        return f"MemberKey({self.public.hex()})"


def check_proof(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the holder of the key ``public`` signed this message. Never raises, whatever the bytes are."""
    if len(public) != PUBLIC_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    if int.from_bytes(public, "little") & (_SIGN_BIT - 1) in _WEAK:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
