"""Can the hub be reached, and is there a token for gated models? A token is never shown."""

from __future__ import annotations

from collections.abc import Iterator

from umu_tasks.doctor.finding import Finding

SECONDS = 5.0


def check_hub() -> Iterator[Finding]:
    """Yield reach and token; asks the network once at most, for no longer than `SECONDS`."""
    from huggingface_hub import constants, get_token

    yield check_reach(constants.ENDPOINT, offline=constants.HF_HUB_OFFLINE)
    yield Finding("ok", "hub token", "there is one" if get_token() else "none (needed for gated models only)")


def check_reach(address: str, *, offline: bool) -> Finding:
    """Return whether a hub answers at all, whatever it says."""
    if offline:
        return Finding("ok", "hub", "not asked: HF_HUB_OFFLINE is set, only what is cached is used")
    import requests  # type: ignore[import-untyped, unused-ignore]

    try:
        requests.head(address, timeout=SECONDS, allow_redirects=False)
    except requests.RequestException as error:
        return Finding(
            "warning",
            "hub",
            f"{address} does not answer ({type(error).__name__})",
            "Data and models must lie here: UMU_DATA=FOLDER (or mini), pretrained=FOLDER. A proxy goes into "
            "HTTPS_PROXY, a mirror into HF_ENDPOINT; HF_HUB_OFFLINE=1 saves waiting.",
        )
    return Finding("ok", "hub", f"{address} answers")
