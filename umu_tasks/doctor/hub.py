"""Can the hub be reached, and is there a token for gated models? A token is never shown."""

from __future__ import annotations

import contextlib
import urllib.error
import urllib.request
from collections.abc import Iterator

from umu_tasks.doctor.deadline import SECONDS, within
from umu_tasks.doctor.finding import Finding


def is_offline() -> bool:
    """Return whether the user switched the hub off."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def check_hub() -> Iterator[Finding]:
    """Yield reach and token; asks the network once at most, for no longer than `SECONDS`."""
    from huggingface_hub import constants, get_token

    yield check_reach(constants.ENDPOINT, offline=is_offline())
    yield Finding("ok", "hub token", "there is one" if get_token() else "none (needed for gated models only)")


def check_reach(address: str, *, offline: bool, seconds: float = SECONDS) -> Finding:
    """Return whether a hub answers at all, whatever it says."""
    if offline:
        return Finding("ok", "hub", "not asked: HF_HUB_OFFLINE is set, only what is cached is used")
    try:
        within(lambda: _ask(address, seconds), seconds)
    except (OSError, ValueError) as error:  # a TimeoutError, a URLError; an address that is none
        reason = f"{type(error).__name__}: {error}"
        return Finding(
            "warning",
            "hub",
            f"{address} does not answer ({reason})",
            "Data and models must lie here: UMU_DATA=FOLDER (or mini), pretrained=FOLDER. A proxy goes into "
            "HTTPS_PROXY, a mirror into HF_ENDPOINT; HF_HUB_OFFLINE=1 saves waiting.",
        )
    return Finding("ok", "hub", f"{address} answers")


def _ask(address: str, seconds: float) -> None:
    if not address.startswith(("http://", "https://")):
        raise ValueError("HF_ENDPOINT must start with https:// or http://")
    request = urllib.request.Request(address, method="HEAD")  # noqa: S310 - checked just above
    with contextlib.suppress(urllib.error.HTTPError):  # an answer too
        urllib.request.urlopen(request, timeout=seconds).close()  # noqa: S310
