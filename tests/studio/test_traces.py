"""Traces: what is recorded, how it is sliced, how long it is kept, and who may ask."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

import glassformer as gf
from glassformer.studio import traces
from glassformer.studio.app import create_app
from glassformer.studio.app_state import Busy, ModelStore, Studio, WorkQueue
from glassformer.studio.tensors import furthest
from glassformer.studio.traces import Traces, traced
from glassformer.view.colours import ColourScale
from studio.cases import FAMILIES, TEXT


def client(studio: Studio, **settings: Any) -> TestClient:
    return TestClient(create_app(studio, **settings), base_url="http://127.0.0.1:8421")


@pytest.fixture(scope="session")
def api(studio: Studio) -> TestClient:
    return client(studio)


def traced_by(api: TestClient, **asked: Any) -> dict[str, Any]:
    answer = api.post("/api/v1/traces", json={"inputs": TEXT, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


def numbers(answer: Any, dtype: str = "<f4") -> np.ndarray:
    assert answer.status_code == 200, answer.text
    shape = [int(size) for size in answer.headers["X-Shape"].split(",") if size]
    return np.frombuffer(answer.content, dtype).reshape(shape)


@pytest.mark.few(5)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_trace_holds_what_python_records(name, api, studio_folders):
    """Every tensor listed, of every family, is the one that gf.record gives for the same text."""
    trace = traced_by(api, model=name)
    model, tok = gf.load(studio_folders[name]), gf.load_tokenizer(studio_folders[name])
    scope: dict[str, Any] = {}
    exec(trace["python"], scope)
    assert type(scope["model"]) is type(model)
    assert [token["id"] for token in trace["tokens"]["read"]] == tok(TEXT)["input_ids"]
    listed = api.get(f"/api/v1/traces/{trace['trace_id']}/tensors").json()
    kinds = {"activation": set(scope["seen"]), "weight": {one for one, _ in model.named_parameters()}}
    for kind, names in kinds.items():
        assert {one["name"] for one in listed if one["kind"] == kind} == names
    for one in listed[:: max(1, len(listed) // 25)]:
        found = numbers(api.get(f"/api/v1/traces/{trace['trace_id']}/tensors/{one['name']}"))
        meant = eval(one["python"], scope).detach().float()
        assert list(meant.shape) == one["shape"]
        np.testing.assert_allclose(found, meant.numpy(), atol=1e-5)
        assert one["max"] == pytest.approx(float(meant.max()), abs=1e-4)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_board_is_one_mosaic_of_its_cells(name, api):
    trace = traced_by(api, model=name)
    where = f"/api/v1/traces/{trace['trace_id']}"
    assert trace["boards"]
    for board in trace["boards"]:
        rows, columns, high, wide = board["shape"]
        for side in (64, 3):
            tiles = numbers(api.get(f"{where}/mosaic", params={"board": board["name"], "side": side}), "u1")
            assert tiles.shape[:2] == (rows, columns)
            assert max(tiles.shape[2:]) <= side
            for place, cell in enumerate(board["cells"]):
                values = numbers(api.get(f"{where}/tensors/{cell['tensor']}", params={"slice": cell["slice"]}))
                assert values.shape == (high, wide)
                scale = ColourScale(*board["scales"][place % columns])
                pooled = furthest(values, -(-high // side), -(-wide // side))
                np.testing.assert_array_equal(tiles.reshape(-1, *tiles.shape[2:])[place], scale.steps(pooled))


def test_pooling_keeps_the_value_furthest_from_zero():
    values = np.array([[1.0, -3.0, 0.5], [2.0, 0.0, -0.25]])
    np.testing.assert_array_equal(furthest(values, 2, 2), [[-3.0, 0.5]])
    np.testing.assert_array_equal(furthest(values, 1, 1), values)


def test_offsets_give_the_very_characters(api):
    trace = traced_by(api, model="bert", pair="Tom slept .")
    for token in trace["tokens"]["read"]:
        if token["side"] is None:
            assert (token["start"], token["end"]) == (None, None)
        else:
            piece = (TEXT, "Tom slept .")[token["side"]][token["start"] : token["end"]]
            assert piece.lower() == token["text"].strip().removeprefix("##").lower()
    assert {token["segment"] for token in trace["tokens"]["read"]} == {0, 1}


def test_slices_in_many_forms(api):
    trace = traced_by(api, model="bert")
    where = f"/api/v1/traces/{trace['trace_id']}/tensors/layers.0.attention.pattern"
    whole = numbers(api.get(where))
    assert numbers(api.get(where, params={"slice": "0,1,2,3"})) == whole[0, 1, 2, 3]
    np.testing.assert_array_equal(numbers(api.get(where, params={"slice": "0,-1,:,1:4"})), whole[0, -1, :, 1:4])
    file = np.load(io.BytesIO(api.get(where, params={"slice": "0", "format": "npy"}).content))
    np.testing.assert_array_equal(file, whole[0])
    steps = numbers(api.get(where, params={"slice": "0", "dtype": "u8", "scale": "0,1,1"}), "u1")
    np.testing.assert_array_equal(steps, ColourScale(root=True).steps(whole[0]))
    archive = api.get(f"/api/v1/traces/{trace['trace_id']}/npz", params={"names": ["layers.0", "outputs.logits"]})
    assert sorted(np.load(io.BytesIO(archive.content))) == ["layers.0", "outputs.logits"]
    for wrong in ("0,9", "0,0,0,0,0", "x", "1:2:3"):
        answer = api.get(where, params={"slice": wrong})
        assert (answer.status_code, wrong in answer.json()["detail"]) == (422, True)
    assert api.get(where.replace("layers.0", "layers.7")).status_code == 404


def test_a_difference_is_exact(api):
    one, other = (traced_by(api, model="bert", inputs=text)["trace_id"] for text in ("Anna saw Tom", "Tom saw Anna"))
    name = "layers.1.attention.pattern"
    first, second = (numbers(api.get(f"/api/v1/traces/{which}/tensors/{name}")) for which in (one, other))
    found = numbers(api.get(f"/api/v1/traces/{one}/tensors/{name}", params={"minus": other}))
    np.testing.assert_array_equal(found, first - second)
    answer = api.get(f"/api/v1/traces/{one}/mosaic", params={"board": "attention", "minus": other})
    tiles, reaches = numbers(answer, "u1"), [float(one) for one in answer.headers["X-Reach"].split(",")]
    for head, reach in enumerate(reaches):  # the colours of a column reach as far as its largest difference
        np.testing.assert_array_equal(tiles[1, head], ColourScale(-reach, reach).steps(first - second)[0, head])
        assert {0, 255} & {int(tiles[:, head].min()), int(tiles[:, head].max())}
    longer = traced_by(api, model="bert")["trace_id"]
    answer = api.get(f"/api/v1/traces/{one}/tensors/{name}", params={"minus": longer})
    assert (answer.status_code, "subtracted" in answer.json()["detail"]) == (422, True)


def test_bad_questions_are_answered_in_one_line(api):
    def asked(**body):
        answer = api.post("/api/v1/traces", json=body)
        return answer.status_code, answer.json()["detail"]

    assert asked(model="nobody", inputs=TEXT)[0] == 404
    assert asked(model="bert", inputs="  ") == (422, "there is nothing to read: give a text that is not empty")
    assert asked(model="bert")[0] == 422
    status, words = asked(model="bert", inputs=TEXT, capture=["nothing.*"])
    assert (status, "nothing.*" in words) == (422, True)
    status, words = asked(model="gpt2", inputs="word " * 500)
    assert status == 422
    assert "\n" not in words
    assert api.get("/api/v1/traces/unheard-of/tensors").status_code == 404


def test_only_what_is_named_is_captured(api):
    trace = traced_by(api, model="bert", capture=["layers.1", "*.pattern"])
    listed = api.get(f"/api/v1/traces/{trace['trace_id']}/tensors").json()
    kept = [one["name"] for one in listed if one["kind"] == "activation"]
    assert kept == ["layers.0.attention.pattern", "layers.1.attention.pattern", "layers.1"]


# --- how long they are kept -----------------------------------------------------------------------------------------


def test_traces_expire_and_then_are_gone(studio_folders):
    now = [0.0]
    store = ModelStore([str(studio_folders["bert"])])
    api = client(Studio(store, Traces(seconds=10, clock=lambda: now[0])))
    trace = traced_by(api, model="bert")
    assert trace["expires_at"] == 10
    where = f"/api/v1/traces/{trace['trace_id']}"
    now[0] = 9.0
    assert api.get(where).json()["expires_at"] == 19
    now[0] = 18.0
    assert api.get(where).status_code == 200
    now[0] = 28.5
    answer = api.get(where)
    assert (answer.status_code, answer.json()["detail"]) == (410, "this trace has expired; run the text again")


def test_the_oldest_make_room_and_one_too_large_is_refused(studio_folders):
    loaded = ModelStore([str(studio_folders["bert"])])["bert"]
    size = traced(loaded, TEXT).bytes
    kept = Traces(budget=int(2.5 * size))
    first, second, third = (traced(loaded, TEXT) for _ in range(3))
    kept.add(first)
    kept.add(second)
    assert kept[first.id] is first  # looked at, so the second one is older now
    kept.add(third)
    assert kept[first.id] is first
    with pytest.raises(LookupError, match="expired"):
        kept[second.id]
    first.once("derived", lambda: torch.zeros(size))  # what is worked out later counts too
    assert kept[first.id] is first
    with pytest.raises(ValueError, match="both do not fit into .* --memory"):  # running it again would help nobody
        kept[third.id]
    with pytest.raises(ValueError, match="--memory"):
        Traces(budget=size // 2).add(traced(loaded, TEXT))


def test_a_look_measures_nothing(api, monkeypatch):
    """What a trace holds is measured when it is added: a hover after Lens must not walk through all its numbers."""
    measured = []
    monkeypatch.setattr(traces, "held_bytes", lambda value: measured.append(value) or 7)
    where = f"/api/v1/traces/{traced_by(api, model='bert')['trace_id']}"
    before = len(measured)
    api.get(f"{where}/lens")
    assert len(measured) == before + 1
    for place in range(3):
        numbers(api.get(f"{where}/tensors/layers.0.attention.pattern", params={"slice": f"0,0,{place}"}))
    assert len(measured) == before + 1
    assert api.get(where).json()["bytes"] == 7 * len(measured)


def test_too_many_at_once_are_sent_away(studio_folders):
    queue = WorkQueue(waiting=0)
    with queue(), pytest.raises(Busy), queue():
        pass
    store = ModelStore([str(studio_folders["bert"])])
    api = client(Studio(store, Traces(), work=queue))
    with queue():
        answer = api.post("/api/v1/traces", json={"model": "bert", "inputs": TEXT})
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert api.post("/api/v1/traces", json={"model": "bert", "inputs": TEXT}).status_code == 200


# --- who may ask ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8421"}, 200),
        ({"host": "[::1]:8421"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example:8421"}, 403),
        ({"origin": "http://127.0.0.1:8421"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"content-length": "99999999"}, 413),
        ({"content-length": "9" * 5000}, 413),
        ({"content-length": "-1"}, 400),
        ({"content-length": "\u00b2"}, 400),
        ({"host": "LOCALHOST:8421"}, 200),
        ({"host": "["}, 400),
        ({"host": "[::1"}, 400),
        ({"host": "[::1].evil.example"}, 400),
        ({"host": "[::1]evil.example:80"}, 400),
        ({"host": "[::ffff:10.0.0.1]"}, 403),
        ({"host": "127.0.0.1@evil.example"}, 400),
        ({"host": "evil.example/127.0.0.1"}, 400),
        ({"host": "127.0.0.1:8421:80"}, 400),
        ({"host": "::1"}, 400),
        ({"origin": "http://["}, 403),
        ({"origin": "http://[::1].evil.example"}, 403),
        ({"origin": "http://127.0.0.1:8421@evil.example"}, 403),
        ({"origin": "HTTP://127.0.0.1:8421"}, 200),
    ],
)
def test_only_this_machine_and_its_own_pages_are_answered(headers, status, api):
    sent = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    answer = api.get("/api/v1/models", headers=sent)
    assert answer.status_code == status, answer.text
    assert "access-control-allow-origin" not in answer.headers
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_with_a_key_nothing_is_answered_without_it(studio):
    api = client(studio, key="open sesame")
    assert api.get("/api/v1/models").status_code == 401
    assert api.get("/?key=wrong").status_code == 401
    assert api.get("/api/v1/models", headers={"authorization": "Bearer open sesame"}).status_code == 200
    answer = api.get("/", params={"key": "open sesame", "screen": "atlas"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/?screen=atlas")
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=strict" in answer.headers["set-cookie"]


def test_a_key_may_be_of_any_letters(studio):
    api = client(studio, key="钥匙; é 1")
    answer = api.get("/", params={"key": "钥匙; é 1"}, follow_redirects=False)
    assert answer.status_code == 303
    assert api.get("/api/v1/models").status_code == 200  # with the cookie
    api.cookies.clear()
    assert api.get("/api/v1/models").status_code == 401
    bearer = "Bearer 钥匙; é 1".encode()
    assert api.get("/api/v1/models", headers={b"authorization": bearer}).status_code == 200


@pytest.mark.parametrize(
    "cookie",
    [
        "studio_key=open%20sesame",
        "a[b]=1; studio_key=open%20sesame",
        '{"json": "x, y"}; studio_key=open%20sesame; z',
        "studio_key=of-another-studio; studio_key=open%20sesame",
        '=; ;;"; \u00e9=\u00fc; studio_key=open%20sesame',
    ],
)
def test_other_programs_cookies_are_not_in_the_way(studio, cookie):
    """Cookies of all ports of a host come together, in whatever form they were set."""
    api = client(studio, key="open sesame")
    assert api.get("/api/v1/models", headers={b"cookie": cookie.encode("latin-1")}).status_code == 200
    wrong = cookie.replace("open", "closed")
    assert api.get("/api/v1/models", headers={b"cookie": wrong.encode("latin-1")}).status_code == 401


def test_chunks_that_grow_too_large_are_refused(api):
    answer = api.post("/api/v1/traces", content=iter([b" " * (1 << 20)] * 5))
    assert (answer.status_code, answer.json()["detail"]) == (413, "a request may hold 4,194,304 bytes")


def test_a_folder_may_have_any_name_and_no_tokenizer(studio_folders, tmp_path):
    gf.save(gf.load(studio_folders["gpt2"]), tmp_path / "情感 模型")
    api = client(Studio(ModelStore([str(tmp_path / "情感 模型")]), Traces()))
    assert [one["examples"] for one in api.get("/api/v1/models").json()] == [[]]  # which would be words
    trace = traced_by(api, model="情感 模型", inputs=[5, 6, 7])
    answer = api.get(f"/api/v1/traces/{trace['trace_id']}/npz", params={"names": "outputs.logits"})
    assert answer.status_code == 200
    assert "filename*=UTF-8''%E6%83%85%E6%84%9F%20%E6%A8%A1%E5%9E%8B.npz" in answer.headers["content-disposition"]


def test_two_models_of_one_name_are_refused(studio_folders, tmp_path):
    other = tmp_path / "bert"
    other.symlink_to(studio_folders["bert"])
    with pytest.raises(ValueError, match="both called 'bert'"):
        ModelStore([str(studio_folders["bert"]), str(other)])


def test_a_folder_that_cannot_be_read_is_named_at_the_start(studio_folders, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(ValueError, match=f"{tmp_path}: .*mamba"):
        ModelStore([str(studio_folders["bert"]), str(tmp_path)])


def test_the_page_is_there_and_nothing_beside_it(api):
    assert "<main" in api.get("/").text
    for name in ("main.js", "style.css", "colours.css", "ramps.js", "values.js", "screens/tensors.js"):
        assert api.get(f"/static/{name}").status_code == 200
    for name in ("../app.py", "%2e%2e/app.py", "..%2fapp_state.py"):
        assert api.get(f"/static/{name}").status_code == 404
    assert not list(Path("src/glassformer/studio/page").rglob("*.min.js"))
