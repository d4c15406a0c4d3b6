"""The reads that the team of a case wrote: probe, verification, and what is read before an undo, over the stand-in provider.

Only the words of the rule are turned into what a probe may answer; what it proves is the product's to judge.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from landed.core.vocabulary import EffectStatus
from landed.sdk.probes import Absent, Ambiguous, Found, ProbeRequest
from landed.testing.cases.contracts import REFERENCE, STATUS, minimum_evidence, text_of
from landed.testing.cases.provider import Answer, Provider, ProviderError, Request

_NAMED: Final = {str(status): status for status in EffectStatus}


class Look:
    """A read of the provider about one operation, as `Process` and the reconciler take it."""

    def __init__(
        self,
        provider: Provider,
        reader: str,
        declared: Mapping[str, Any],
        *,
        op_of: Callable[[str, str], str],
        subject_of: Callable[[str], str] = lambda operation_id: operation_id,
        backwards: bool = False,
    ) -> None:
        """
        Args:
            reader: tool that reads.
            declared: contract of the tool whose effect is looked for.
            op_of: name of an operation in the case, by tenant and operation id.
            subject_of: whose effect is looked for, by operation id.
            backwards: the forward look-up of an inverse, which its answer is read the other way round for (§7).
        """
        self._provider = provider
        self._reader = reader
        self._declared = declared
        self._op_of = op_of
        self._subject_of = subject_of
        self.backwards: Final = backwards

    def ask(self, request: ProbeRequest) -> tuple[float, Callable[[], object]]:
        """Seconds that the read takes, and its answer, which raises where the read fails."""
        asked = Request(
            tool=self._reader,
            op=self._op_of(request.tenant_id, request.operation_id),
            subject=(request.tenant_id, request.operation_id),
            key=None,
            arguments=request.stored_args,
        )
        subject = self._subject_of(request.operation_id)
        answer = self._provider.read(asked, subject=(request.tenant_id, subject))
        return answer.after_s, lambda: self._said(answer)

    def _said(self, answer: Answer) -> object:
        said, evidence = answer.said, minimum_evidence(self._declared)
        match answer.kind:
            case "not_found":
                if self._declared.get("absence_proof") == "strong" and said.get("read") == "weak":
                    raise ProviderError("read from a replica", "weak_read", None)
                return Absent()
            case "found" | "lookalike" | "pending":
                matched = tuple(said["matched"]) if "matched" in said else evidence
                if answer.kind == "lookalike":
                    matched = tuple(name for name in matched if name not in said["differs"])
                reference = answer.fields.get(REFERENCE)
                status = EffectStatus.PENDING if answer.kind == "pending" else self._status(answer)
                if status is None:
                    return Ambiguous("its record is not as a success is declared to be")
                return Found(reference=reference, receipt=dict(answer.fields), matched_on=matched, status=status)
            case _:
                return answer.outcome()

    def _status(self, answer: Answer) -> EffectStatus | None:
        """Status of a record that was found; None where it contradicts what a success is."""
        status = answer.fields.get(STATUS)
        if status in self._declared.get("removed_when", ()):
            return EffectStatus.REMOVED
        success = self._declared.get("success_when", {})
        if any(name in answer.fields and text_of(answer.fields[name]) != text_of(wanted) for name, wanted in success.items()):
            return None
        return EffectStatus.SETTLED if success else _NAMED.get(str(status), EffectStatus.SETTLED)
