"""One generation: a decoder, its tokenizer, and the tokens and text it has produced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.decode.decoder import Decoder
from vramscope.decode.profiling import Profiler
from vramscope.decode.types import DecodeState
from vramscope.devices.sampling import Sampling
from vramscope.errors import InputError, NeverCapturedError
from vramscope.messages.live import SnapshotInfo, TokenInfo
from vramscope.server.listener import Listener
from vramscope.server.live import capture_info, run_info, snapshot_info, verify_info
from vramscope.server.profiling import joined, profile_info
from vramscope.server.slots import slots_info

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vramscope.decode.tokenizer import TextStream, Tokenizer
    from vramscope.decode.types import StepResult
    from vramscope.devices.base import Device
    from vramscope.devices.governor_types import MemoryGovernor
    from vramscope.graph.model import Model
    from vramscope.messages.running import (
        CaptureInfo,
        PrefillParams,
        ProfileInfo,
        RunInfo,
        SamplingInfo,
        VerifyInfo,
    )
    from vramscope.messages.slots import SlotsInfo
    from vramscope.plan.planner import Planner
    from vramscope.plan.types import Plan
    from vramscope.run.events import CancelCheck, Event
    from vramscope.run.trace import Tracer
    from vramscope.run.traffic import TrafficPhase

    SomeSteps = Callable[[int, CancelCheck], Sequence[StepResult]]


def sampling_of(info: SamplingInfo) -> Sampling:
    """How the next token is chosen."""
    return Sampling(info.temperature, info.top_k, info.top_p, info.seed)


def prompt_tokens(params: PrefillParams, model: Model, tokenizer: Tokenizer | None) -> list[int]:
    """The prompt as token ids.

    Raises:
        InputError: neither text nor ids, text without a tokenizer, or an id outside the vocabulary.
    """
    if params.tokens:
        return _checked_tokens(params.tokens, model)
    if not params.prompt:
        raise InputError("the prompt", "it is empty", "Give a text, or token ids")
    if tokenizer is None:
        raise InputError(
            "the prompt",
            f"{model.folder} has no tokenizer.json, so text cannot become token ids",
            "Give token ids instead (--tokens 1,2,3), or put tokenizer.json beside the model",
        )
    text = tokenizer.chat([{"role": "user", "content": params.prompt}]) if params.chat else params.prompt
    return _checked_tokens(tokenizer.encode(text), model)


def _checked_tokens(tokens: list[int], model: Model) -> list[int]:
    vocabulary = model.contract.vocabulary if model.contract else 0
    for token in tokens:
        if token < 0 or (vocabulary and token >= vocabulary):
            raise InputError(
                f"token id {token}", f"the vocabulary of {model.folder.name} is 0 to {vocabulary - 1}"
            )
    if not tokens:
        raise InputError("the prompt", "it has no tokens", "Give a longer text, or token ids")
    return tokens


class Generation:
    """Owns a decoder. Every method is called from the thread that owns the device."""

    def __init__(
        self,
        planner: Planner,
        plan: Plan,
        sampling: Sampling,
        tokenizer: Tokenizer | None,
        device: Device | None = None,
        governor: MemoryGovernor | None = None,
        *,
        watch_experts: bool = False,
    ) -> None:
        """Makes the decoder, on the host where no device is given; nothing is loaded yet.

        Raises:
            InvalidRequestError: experts are to be watched and there are none.
        """
        self.sampling = sampling
        self._tokenizer = tokenizer
        self._listener = Listener()
        self._decoder = Decoder(
            planner.model,
            plan,
            device=device,
            events=self._tell,
            sampling=sampling,
            governor=governor,
            planner=planner,
        )
        self._experts = self._decoder.traffic.observe("the run") if watch_experts else None
        self._stream: TextStream | None = None
        self._finished = ""
        self._produced = 0
        self._tracer: Tracer | None = None
        self.profiled: ProfileInfo | None = None
        """The newest profile."""

    @property
    def plan(self) -> Plan:
        """What is run, with the device context that the open device bounds."""
        return self._decoder.plan

    def _tell(self, event: Event) -> None:
        self._listener.event(event)

    def trace(self, tracer: Tracer | None) -> None:
        """Lets ``tracer`` record what runs from here on; None: nothing any more."""
        self._tracer = tracer
        self._decoder.trace(tracer)

    def load(self, listener: Listener) -> None:
        """Reserves memory and loads the weights."""
        self._listener = listener
        self._enter("Load")
        self._decoder.load(listener.progress, self._watching(listener))

    def _enter(self, phase: TrafficPhase) -> None:
        if self._experts is not None:
            self._experts.enter(phase)

    def prefill(self, tokens: list[int], listener: Listener) -> RunInfo:
        """Starts over with a prompt, the same for every sequence."""
        self._begin(listener)
        self._enter("Prefill")
        prompts = [tokens] * self.plan.scenario.batch
        result = self._decoder.prefill(prompts, self._watching(listener))
        self._enter("Warmup")
        return self._ended([self._said(result)])

    def _begin(self, listener: Listener) -> None:
        self._listener = listener
        self._decoder.reset()
        self._stream = self._tokenizer.stream() if self._tokenizer else None
        self._finished, self._produced = "", 0

    def step(self, count: int, listener: Listener) -> RunInfo:
        """Up to ``count`` eager steps; fewer when generation ends."""
        return self._each(self._decoder.step, count, listener)

    def replay(self, count: int, listener: Listener, multi_step: int = 1) -> RunInfo:
        """Up to ``count`` replays of the captured step, ``multi_step`` at once; fewer when generation ends.

        Raises:
            NeverCapturedError: nothing is captured.
        """

        def some(wanted: int, cancel: CancelCheck) -> Sequence[StepResult]:
            return self._decoder.replays(min(wanted, multi_step), cancel)

        return self._several(some, count, listener)

    def _each(self, one: Callable[[CancelCheck], StepResult], count: int, listener: Listener) -> RunInfo:
        return self._several(lambda _wanted, cancel: (one(cancel),), count, listener)

    def _several(self, some: SomeSteps, count: int, listener: Listener) -> RunInfo:
        """Takes steps until there are ``count``; ``some`` takes one or more of those still wanted."""
        self._listener = listener
        self._enter("Decode")
        said: list[TokenInfo] = []
        while len(said) < count and not self._finished:
            listener.cancel()
            said += map(self._said, some(count - len(said), listener.cancel))
            listener.snapshot(self.snapshot, final=False)
        return self._ended(said)

    def capture(self, listener: Listener) -> CaptureInfo:
        """Captures the decode step, which is itself a step; a cold session takes an eager one before."""
        self._listener = listener
        self._enter("Warmup")
        if self._finished:
            raise NeverCapturedError(
                "capture", f"generation ended: {self._finished}", "Prefill a prompt and capture then"
            )
        said = []
        if self._cold:
            said.append(self._said(self._decoder.step(listener.cancel)))
        report, result = self._decoder.capture(listener.cancel)
        said.append(self._said(result))
        return capture_info(report, self._decoder.graph_facts(), self._ended(said))

    def verify(self, count: int, listener: Listener) -> VerifyInfo:
        """Compares ``count`` replayed steps with eager ones, and goes back to where the generation was."""
        self._listener = listener
        saved = self._decoder.save()
        try:
            report = self._decoder.verify(count, listener.cancel)
        finally:
            self._decoder.restore(saved)
        return verify_info(report, self._ended([]), self._piece)

    def _piece(self, token: int) -> str:
        """One token's text by itself; empty without a tokenizer."""
        return self._tokenizer.decode([token]) if self._tokenizer else ""

    def profile(self, count: int, listener: Listener) -> ProfileInfo:
        """Up to ``count`` eager steps, each node timed; a cold session takes an ordinary one before."""
        before = self._each(self._decoder.step, 1, listener) if self._cold else None
        profiler = Profiler(self._decoder, self._tracer)
        run = self._each(profiler.step, count, listener)
        self.profiled = profile_info(profiler.profile(), run if before is None else joined(before, run))
        return self.profiled

    @property
    def _cold(self) -> bool:
        return self._decoder.state is DecodeState.WARM_UP

    def reset(self, listener: Listener) -> RunInfo:
        """Back to before the prompt; memory and weights stay."""
        self._begin(listener)
        return self._ended([])

    def close(self) -> None:
        """Gives back everything, the device with it."""
        self._decoder.close()
        self._decoder.device.close()

    def _said(self, result: StepResult) -> TokenInfo:
        """Tells the tokens of one step and remembers how it ended."""
        self._finished = result.finished
        token = TokenInfo(
            step=self._produced,
            tokens=list(result.tokens),
            text=self._stream.push(result.tokens[0]) if self._stream else "",
            replayed=result.replayed,
            milliseconds=result.seconds * 1000,
        )
        self._produced += 1
        self._listener.token(token)
        return token

    def _ended(self, said: list[TokenInfo]) -> RunInfo:
        self._listener.snapshot(self.snapshot, final=True)
        return run_info(
            self._decoder.snapshot(),
            batch=self.plan.scenario.batch,
            finished=self._finished,
            tokens=[token.tokens[0] for token in said],
            text="".join(token.text for token in said),
        )

    def slots(self) -> SlotsInfo:
        """Graph slots and memory slots in full."""
        return slots_info(self._decoder.inspect())

    def snapshot(self) -> SnapshotInfo:
        """Everything live; its number and time are the publisher's to give."""
        traffic = {} if self._experts is None else self._experts.so_far()
        return snapshot_info(
            self._decoder.snapshot(), traffic, finished=self._finished, sequence=0, seconds=0.0
        )

    def _watching(self, listener: Listener) -> CancelCheck:
        """A cancel check that also offers a snapshot: loading and prefill are long."""

        def check() -> None:
            listener.cancel()
            listener.snapshot(self.snapshot, final=False)

        return check
