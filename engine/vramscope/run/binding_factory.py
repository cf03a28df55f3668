"""Makes a session's bindings: memory of its own, or the caller's in place; exposure is decided here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.devices.governor_types import Activation, KvCache, Tier
from vramscope.errors import (
    BindingError,
    ExternalMemoryError,
    InputNotFoundError,
    InvalidRequestError,
    OutputNotFoundError,
)
from vramscope.graph.dtypes import is_packed, numpy_dtype
from vramscope.graph.links import link
from vramscope.plan.types import OWN_RUNTIME, ComponentName
from vramscope.run.bindings import check_named
from vramscope.run.device_binding import BindingSpec, DeviceIoBinding, physical_bytes
from vramscope.run.exposure import exposes_prefix, mask_is_freeze_safe
from vramscope.run.external import Adopted, Adopting, adopt, check_fit
from vramscope.run.memory import site
from vramscope.run.virtual_memory import VirtualBacking, join_zone

if TYPE_CHECKING:
    from vramscope.devices.base import Device
    from vramscope.devices.governor_types import CapacityLease, MemoryGovernor
    from vramscope.graph.model import Program, Value
    from vramscope.run.memory import SessionMemory


def binding_spec(
    program: Program, names: tuple[str, str], physical: tuple[int, ...], *, fixed_strides: bool = False
) -> BindingSpec:
    """What a binding of (input, output) names will be; an empty name binds none.

    Raises:
        BindingError: neither is named, or the two differ in type. InputNotFoundError, OutputNotFoundError.
    """
    name, output = names
    check_named(name, output)
    values = [_find(program, program.inputs, name)] if name else []
    values += [_find(program, program.outputs, output)] if output else []
    if len(values) == 2 and values[0].dtype is not values[1].dtype:
        kinds = f"{values[0].dtype.name} and {values[1].dtype.name}"
        raise BindingError(
            f"binding of {name} and {output}", f"their types differ: {kinds}", "Bind them apart"
        )
    value = values[0]
    exposes = (
        fixed_strides or not name or exposes_prefix(program, link(program), value.id, aliased=bool(output))
    )
    safe = bool(name) and not output and mask_is_freeze_safe(program, value.id)
    return BindingSpec(name, output, value.dtype, physical, exposes, fixed_strides, safe)


def _find(program: Program, among: tuple[int, ...], name: str) -> Value:
    known = {program.values[item].name: program.values[item] for item in among}
    if name in known:
        return known[name]
    kind = "input" if among is program.inputs else "output"
    error = InputNotFoundError if kind == "input" else OutputNotFoundError
    remedy = f"It has {', '.join(known)}"
    raise error(f"{kind} {name}", "the graph has none of this name", remedy, "", name, tuple(known))


def own_binding(memory: SessionMemory, spec: BindingSpec) -> DeviceIoBinding:
    """A binding in zeroed memory of the device, given back when it is closed.

    It outlives the session that made it, so its bytes have a lease of their own.

    Raises:
        OutOfBudgetError: the governor's limit or the device does not hold it.
        ShapeOverflowError: no device does.
    """
    device, governor, size = memory.device, memory.leases.governor, physical_bytes(spec)
    lease = governor.reserve(Tier.DEVICE, 0, Activation(), governor.issue_holder(f"binding {spec.name}"))
    try:
        lease.grow(size)
        buffer = device.allocate(site(ComponentName.BINDINGS, spec.name), size)
    except BaseException:
        release_lease(governor, lease)
        raise
    buffer.bytes[:] = 0

    def give_back() -> None:
        device.release(buffer)
        release_lease(governor, lease)

    return DeviceIoBinding(
        device, spec, buffer.bytes, buffer.address, give_back, quarantine=memory.quarantine
    )


def virtual_binding(memory: SessionMemory, spec: BindingSpec, granule: int) -> DeviceIoBinding:
    """A binding over addresses of its physical shape, none of them backed yet.

    Raises:
        InvalidRequestError: not on the host device, or a third party governs the session.
    """
    if memory.device.runtime != OWN_RUNTIME:
        raise InvalidRequestError(
            f"virtual memory on {memory.device.name}",
            "only the host device maps it",
            "Use an ordinary binding",
        )
    role = KvCache() if spec.input and spec.output else Activation()
    member = join_zone(memory, f"binding {spec.name}", role)
    where = site(ComponentName.BINDINGS, spec.name)
    backing = VirtualBacking(memory.device, member, where, physical_bytes(spec), granule)

    def give_back() -> None:
        holder = member.holder
        backing.close()
        memory.leases.governor.dismiss_holder(holder)

    return DeviceIoBinding(
        memory.device,
        spec,
        backing.bytes,
        backing.address,
        give_back,
        backing=backing,
        quarantine=memory.quarantine,
    )


def release_lease(governor: MemoryGovernor, lease: CapacityLease) -> None:
    """Ends a lease and its holder, which had this one alone."""
    lease.close()
    governor.dismiss_holder(lease.holder)


def external_binding(device: Device, spec: BindingSpec, memory: object) -> DeviceIoBinding:
    """A binding over the caller's memory, used in place and never given back (semantics 2.6).

    Host memory serves the host device; any other device says itself what it can use in place.

    Raises:
        ExternalMemoryError: null, misaligned, too short, not contiguous, or read-only where it is written.
    """
    adopted = _adopted(device, spec.name, memory)
    itemsize = 1 if is_packed(spec.dtype) else numpy_dtype(spec.dtype).itemsize
    check_fit(adopted, spec.name, itemsize, physical_bytes(spec), spec.physical)
    if spec.output and not adopted.writable:
        raise ExternalMemoryError(
            f"memory of {spec.name}", "it is read-only and the output is written there", "Bind a copy of it"
        )
    return DeviceIoBinding(device, spec, adopted.bytes, adopted.address, keep=adopted.keep)


def _adopted(device: Device, name: str, memory: object) -> Adopted:
    if isinstance(device, Adopting):
        return device.adopt(memory, name)
    if device.name != "host":
        raise ExternalMemoryError(
            f"memory of {name}", f"device {device.name} cannot use the host's in place", "Bind its own memory"
        )
    return adopt(memory, name)
