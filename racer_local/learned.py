"""What drafting keeps between starts: what decodes cost on this machine, and how often guesses are right.

Two small files for each model, counts and times only, no text.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from racer_local import gguf_file, locations
from racer_local.drafting.beliefs import Beliefs
from racer_local.drafting.cost import StepCost
from racer_local.state_file import StateFile

VERSION = 1


class Learned:
    """Costs and beliefs, from their files where there are such.

    Attributes:
        cost: What decodes cost; not measured yet where no file fits.
        beliefs: How often each kind of guess is right.
        notes: What people should know of the files.
    """

    def __init__(self, model: Path, machine: Mapping[str, Any], *, keep: bool = True) -> None:
        """Read the files.

        Args:
            model: The model file.
            machine: All that costs depend on besides the model: device, threads, versions, kind of cache.
            keep: Read and write files; otherwise everything begins anew and ends with the process.
        """
        self.cost = StepCost()
        self.beliefs = Beliefs()
        self.notes: list[str] = []
        self._files: tuple[StateFile, StateFile] | None = None
        if keep:
            of_model = gguf_file.file_id(model)
            of_machine = hashlib.sha256(json.dumps(machine, sort_keys=True).encode()).hexdigest()[:8]
            folder, stem = locations.learned_dir(), model.stem[:60]
            self._files = (
                StateFile(folder / f"{stem}-{of_model}-{of_machine}.cost.json", VERSION),
                StateFile(folder / f"{stem}-{of_model}.beliefs.json", VERSION),
            )
            self._read(self._files[0], self._take_cost)
            self._read(self._files[1], self.beliefs.take)

    def save(self) -> None:
        """Write the files; a failure is noted once."""
        if self._files is None:
            return
        try:
            if self.cost.is_measured:
                self._files[0].write(self.cost.as_dict())
            self._files[1].write(self.beliefs.as_dict())
        except OSError as error:
            self.notes.append(f"what drafting has learned is not kept: {error}")
            self._files = None

    def _take_cost(self, data: dict[str, Any]) -> None:
        self.cost = StepCost.from_dict(data)

    def _read(self, file: StateFile, take: Callable[[dict[str, Any]], None]) -> None:
        try:
            data = file.read()
            if data is not None:
                take(data)
        except OSError as error:
            self.notes.append(f"cannot read {file.path}: {error.strerror}; drafting begins anew")
        except ValueError as error:
            aside = file.set_aside()
            self.notes.append(f"{file.path} was damaged ({error}) and is now {aside.name}; drafting begins anew")
