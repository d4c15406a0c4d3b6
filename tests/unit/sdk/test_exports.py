"""The public names of the package: a name that appears or goes away is a decision, made here."""

import pytest

import landed

NAMES = """
Absent Access Ambiguous AsyncGroup AsyncLedger Compensation Confirmed Contract ContractError CurrentOperation Effect Escalated
Execute Found Group Intent LandedError Ledger LedgerGone LedgerUnavailable ListRequest Listed NoOperation NotSent
OperationKey Pending Probe
ProbeAnswer ProbeRequest Raised Refused Rejected RequestError Requires Result Returned Settings SettingsError Stage Tool ToolError
ToolRegistry Unknown UnrecordedCall Verify Webhook current_operation effect intent_for intent_of load_registry raised
settings_from without_contract
""".split()  # noqa: SIM905


def test_exactly_these_names_are_public() -> None:
    assert sorted(landed.__all__) == sorted(NAMES)


def test_every_public_name_can_be_had() -> None:
    for name in NAMES:
        assert getattr(landed, name).__module__.startswith(("landed.", "types", "typing")), name
    assert set(dir(landed)) >= set(NAMES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Leger"):
        landed.Leger  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_of_the_sdk_is_in_the_tree_and_in_its_drawing() -> None:
    from landed.sdk import errors

    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.LandedError)
        assert name in (errors.__doc__ or ""), f"{name} is not drawn"
