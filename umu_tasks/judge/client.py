"""One question to a judge behind an OpenAI-compatible endpoint; waits and asks again where that may help.

The key goes into one header and nowhere else: no message, log line or file has it.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import logging
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.judge.rubric import RESPONSE_FORMAT

logger = logging.getLogger(__name__)

URL, MODEL, KEY = "UMU_JUDGE_URL", "UMU_JUDGE_MODEL", "UMU_JUDGE_API_KEY"
MAX_TOKENS = 200  # a score and a short reason
_PATH = "/chat/completions"
_THIS_ONE = {400, 413, 422}  # what was asked is refused (too long, a content filter), not who asks
_TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_LONGEST_WAIT = 120.0  # seconds, whatever Retry-After says


class JudgeError(RuntimeError):
    """The judge did not answer one question, although asked several times, or refused to."""


class JudgeRefused(DataError):
    """The judge will answer no question: wrong key, model or address."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Which judge, and how patient to be.

    Attributes:
        url: the endpoint's base (``https://host/v1``) or its full ``…/chat/completions``.
        key: sent as bearer token if there is one; hidden in the object's text.
        timeout: seconds for one request.
        retries: how often a question is asked again after a failure that may pass.
        backoff: seconds to wait before the first repetition; doubled for each further one.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    retries: int = 6
    backoff: float = 1.0

    @property
    def endpoint(self) -> str:
        base = self.url.rstrip("/")
        return base if base.endswith(_PATH) else base + _PATH


def settings_from_environment(environment: Mapping[str, str] = os.environ, **changes: Any) -> JudgeSettings | None:
    """Return the judge that ``UMU_JUDGE_URL`` and ``UMU_JUDGE_MODEL`` name, None where no judge is set.

    Raises:
        DataError: one of the two is set without the other, or the address is none.
    """
    url, model = changes.pop("url", None) or environment.get(URL), changes.pop("model", None) or environment.get(MODEL)
    if not url and not model:
        return None
    if not url or not model:
        missing, there = (URL, MODEL) if not url else (MODEL, URL)
        raise DataError(f"{there} is set and {missing} is not. Set both, or neither.")
    if not url.startswith(("http://", "https://")):
        raise DataError(f"{URL}={url}: expected an address such as https://host/v1.")
    return JudgeSettings(url, model, environment.get(KEY) or None, **changes)


class JudgeClient:
    """Asks one judge; safe to use from several threads.

    An endpoint that says when to come back makes all threads wait, not only the one that it told.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.stopped = threading.Event()
        self._optional: dict[str, Any] = {
            "response_format": RESPONSE_FORMAT, "temperature": 0, "max_tokens": MAX_TOKENS
        }  # fmt: skip
        self._not_before = 0.0
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Have all threads give up waiting."""
        self.stopped.set()

    def ask(self, messages: list[dict[str, str]]) -> str:
        """Return the judge's reply.

        Raises:
            JudgeRefused: nothing it is asked will be answered.
            JudgeError: it failed `retries` times more than once, refuses this question, or was stopped.
        """
        failure, attempt = "stopped", 0
        while attempt <= self.settings.retries and self._wait():
            try:
                return self._post(messages)
            except _Transient as error:
                failure = str(error)
                if error.wait is not None:
                    self._hold(error.wait)
                self.stopped.wait(self._backoff(attempt))
                attempt += 1
            except _UnknownParameter as error:
                logger.info("the judge does not take %s; asked without it", error)
        raise JudgeError(self._safe(failure))

    def _post(self, messages: list[dict[str, str]]) -> str:
        with self._lock:
            sent = dict(self._optional)
        body = {"model": self.settings.model, "messages": messages, **sent}
        request = urllib.request.Request(self.settings.endpoint, json.dumps(body).encode(), self._headers())  # noqa: S310
        try:
            with _OPENER.open(request, timeout=self.settings.timeout) as response:
                content = response.read()
        except urllib.error.HTTPError as error:
            raise self._failure(error, sent) from None  # the chain would show the request
        except (OSError, http.client.HTTPException, ValueError) as error:  # refused, reset, timed out, cut off
            raise _Transient(f"{type(error).__name__}: {error}") from None
        return _reply(content)

    def _headers(self) -> dict[str, str]:
        own = {"Authorization": f"Bearer {self.settings.key}"} if self.settings.key else {}
        return {"Content-Type": "application/json", "User-Agent": "umu-bench", **own}

    def _failure(self, error: urllib.error.HTTPError, sent: Mapping[str, Any]) -> Exception:
        try:
            text = error.read().decode(errors="replace")
        except OSError:
            text = ""
        said = f"status {error.code}: {text.strip()[:300]}"
        if error.code in _TRANSIENT:
            return _Transient(said, _retry_after(error.headers.get("Retry-After")))
        if error.code in _THIS_ONE:
            unknown = next((name for name in sent if name in text), None)
            if unknown is None:
                return JudgeError(self._safe(said))
            self._drop(unknown)
            return _UnknownParameter(unknown)
        return JudgeRefused(
            f"the judge refuses: {self._safe(said)} Check {URL}, {MODEL} and {KEY}.", file=self.settings.endpoint
        )

    def _drop(self, name: str) -> None:
        """Ask without a parameter from now on; newer models call the token limit by another name."""
        with self._lock:
            if self._optional.pop(name, None) is not None and name == "max_tokens":
                self._optional["max_completion_tokens"] = 5 * MAX_TOKENS  # such models count their thinking too

    # ---- waiting ------------------------------------------------------------------------------------------------

    def _backoff(self, attempt: int) -> float:
        return self.settings.backoff * 2**attempt * random.uniform(0.5, 1.0)  # noqa: S311 - spreads the threads

    def _hold(self, seconds: float) -> None:
        with self._lock:
            self._not_before = max(self._not_before, time.monotonic() + min(seconds, _LONGEST_WAIT))

    def _wait(self) -> bool:
        """Wait until asking is allowed; return False if stopped meanwhile."""
        while (remaining := self._not_before - time.monotonic()) > 0:
            if self.stopped.wait(remaining):
                return False
        return not self.stopped.is_set()

    def _safe(self, text: str) -> str:
        """Return `text` without the key, which some endpoints repeat in what they say about it."""
        return text.replace(self.settings.key, "***") if self.settings.key else text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: following it would send the key to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


class _Transient(Exception):
    """May pass; `wait` is what the endpoint asked for, in seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class _UnknownParameter(Exception):
    """The endpoint does not know an optional parameter."""


def _reply(content: bytes) -> str:
    """Return the text of a chat completion.

    Raises:
        _Transient: the body is something else: a proxy's page, or a body cut short.
    """
    try:
        reply = json.loads(content)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError):
        raise _Transient(f"no chat completion: {content[:200]!r}") from None
    return reply if isinstance(reply, str) else ""


def _retry_after(value: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for: a number, or a date."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
