"""Where files of this program live. Nothing is created before something is written."""

import importlib.metadata
from pathlib import Path

import platformdirs

APP = "racer-local"


def config_dir() -> Path:
    """The user's settings: `models.toml`."""
    return platformdirs.user_config_path(APP)


def cache_dir() -> Path:
    """What can be measured or made again."""
    return platformdirs.user_cache_path(APP)


def data_dir() -> Path:
    """What the user said and was answered."""
    return platformdirs.user_data_path(APP)


def sessions_dir() -> Path:
    """Conversations of the chat."""
    return data_dir() / "sessions"


def config_file() -> Path:
    """The user's own defaults for options, keys and looks."""
    return config_dir() / "config.toml"


def learned_dir() -> Path:
    """What drafting has learned of models and of this machine."""
    return cache_dir() / "learned"


def user_models_file() -> Path:
    """The user's own model names; they come before the shipped ones."""
    return config_dir() / "models.toml"


def shipped_models_file() -> Path:
    """Model names that come with the program."""
    checkout = Path(__file__).resolve().parent.parent / "models.toml"
    if checkout.is_file():
        return checkout
    for file in importlib.metadata.files(APP) or []:
        if file.name == "models.toml":
            return Path(str(file.locate())).resolve()
    return checkout


def all_paths() -> dict[str, Path]:
    """Every location by name, as `--paths` prints them."""
    return {
        "config": config_dir(),
        "config file": config_file(),
        "sessions": sessions_dir(),
        "cache": cache_dir(),
        "learned": learned_dir(),
        "user models": user_models_file(),
        "shipped models": shipped_models_file(),
    }
