"""The control plane against its description: whatever is sent, the answer is documented."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from incrowd.live.hub.routes import ROUTES
from incrowd.live.hub.web import openapi
from tests.live.hub_server import Api, Deployment, RunningHub, running_hub


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return Deployment(tmp_path_factory.mktemp("hub"))


@pytest.fixture(scope="module")
def hub(deployment: Deployment) -> Iterator[RunningHub]:
    with running_hub(deployment) as running:
        yield running
        assert running.stop() == 0
        assert '"error"' not in running.log.read_text()


DESCRIPTION = schemathesis.openapi.from_dict(openapi(ROUTES))
# A schema cannot say that bytes must be signed: such requests are well formed, and refused.
DESCRIPTION.config.checks.positive_data_acceptance.expected_statuses = [
    *("2xx", "403", "404", "409", "422"),
]
OPERATIONS = {each.ok().label: each.ok() for each in DESCRIPTION.get_all_operations()}


# Nothing can be wrong with a request that has no parameters.
CASES = [
    (label, mode)
    for label, operation in OPERATIONS.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE
    or any((operation.body, operation.query, operation.path_parameters))
]


@pytest.mark.parametrize(("label", "mode"), CASES)
def test_every_answer_is_documented(
    hub: RunningHub, deployment: Deployment, label: str, mode: GenerationMode
) -> None:
    authority = str(deployment.root / "authority" / "certificate.pem")
    operation = OPERATIONS[label]
    with requests.Session() as session:

        @settings(
            max_examples=10,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: schemathesis.Case) -> None:
            case.call_and_validate(base_url=hub.url, session=session, verify=authority)

        ask()


def test_description_is_complete(hub: RunningHub, deployment: Deployment) -> None:
    with Api(hub, deployment) as api:
        document = api.get("/openapi.json").json()
        assert document["openapi"].startswith("3.1")
        for path, operations in document["paths"].items():
            for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
                concrete = path.replace("{survey}", "00" * 16).replace("{name}", "nobody")
                answer = api.request(method, concrete)
                if method.lower() in operations:
                    assert answer.status_code != 405
                    assert str(answer.status_code) in operations[method.lower()]["responses"]
                else:
                    assert answer.status_code == 405
                    assert answer.json()["reason"] == "method"
                    assert answer.headers["allow"] == ", ".join(
                        sorted(each.upper() for each in operations)
                    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/nowhere", b"", 404),
        ("GET", "/v1/keys?limit=0", b"", 400),
        ("GET", "/v1/keys?limit=1&limit=1", b"", 400),
        ("GET", "/v1/keys?colour=red", b"", 400),
        ("GET", "/v1/keys?after=%ff", b"", 400),
        ("GET", "/v1/keys?after=%00", b"", 422),
        ("GET", "/v1/keys/%00", b"", 404),
        ("GET", "/v1/surveys/xyz", b"", 400),
        ("GET", "/v1/surveys/" + "AB" * 16, b"", 400),
        ("POST", "/v1/keys", b"", 400),
        ("POST", "/v1/keys", b"[" * 100_000, 400),
        ("POST", "/v1/keys", b'{"record": "%"}', 400),
        ("POST", "/v1/keys", b'{"record": "", "colour": "red"}', 400),
        ("POST", "/v1/keys", b'{"record": ""}', 422),
        ("POST", "/v1/keys", b" " * (2 << 20), 413),
        ("POST", "/v1/revocations", b'{"crl": ""}', 422),
        ("POST", "/v1/surveys", b'{"task": "", "roster": "", "graph": null}', 422),
    ],
)
def test_refusals_have_one_shape(
    hub: RunningHub, deployment: Deployment, method: str, path: str, body: bytes, status: int
) -> None:
    with Api(hub, deployment) as api:
        answer = api.request(method, path, content=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error", "reason", "how"}
