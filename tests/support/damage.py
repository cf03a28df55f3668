"""Damages a model as a bad disk, a broken exporter or an attacker would: field by field, from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.descriptor import FieldDescriptor

if TYPE_CHECKING:
    from random import Random

    import onnx
    from google.protobuf.message import Message

NUMBERS = (0, 1, -1, 2, 3, 7, 64, 100, 10**6, 2**31 - 1, 2**31, 2**63 - 1, -(2**31), -(2**63))
FLOATS = (0.0, -1.0, 0.5, 1e30, float("nan"), float("inf"))
WORDS = ("", "x", "..", "/etc/passwd", "batch_size", "0", " ", "\n", "a" * 300, "%s", "input_ids", "logits")


def damage(model: onnx.ModelProto, random: Random) -> None:
    """Changes one field of one message in place."""
    message = random.choice(_messages(model))
    given = [field for field, _ in message.ListFields()]
    fields = given if given and random.random() < 0.6 else list(message.DESCRIPTOR.fields)
    field = random.choice(fields)
    chance = random.random()
    if chance < 0.25:
        message.ClearField(field.name)
    elif field.message_type is not None:
        _change_messages(message, field, chance, random)
    else:
        _change_values(message, field, random)


def _messages(message: Message) -> list[Message]:
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if field.is_repeated else [value]:
                found.extend(_messages(item))
    return found


def _change_messages(message: Message, field: FieldDescriptor, chance: float, random: Random) -> None:
    value = getattr(message, field.name)
    if not field.is_repeated:
        value.SetInParent()
    elif not len(value):
        value.add()
    elif chance < 0.5:
        del value[random.randrange(len(value))]
    elif chance < 0.8:
        value.add().CopyFrom(random.choice(value))
    else:
        value[random.randrange(len(value))].CopyFrom(random.choice(value))


def _change_values(message: Message, field: FieldDescriptor, random: Random) -> None:
    new = _value(field, random)
    if not field.is_repeated:
        setattr(message, field.name, new)
        return
    values = getattr(message, field.name)
    if len(values) and random.random() < 0.8:
        values[random.randrange(len(values))] = new
    else:
        values.append(new)


def _value(field: FieldDescriptor, random: Random) -> object:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return random.choice(list(field.enum_type.values_by_number))
    if kind == FieldDescriptor.CPPTYPE_STRING:
        word = random.choice(WORDS)
        return word.encode() if field.type == FieldDescriptor.TYPE_BYTES else word
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return random.choice(FLOATS)
    number = random.choice(NUMBERS) if random.random() < 0.7 else random.randrange(30)
    if kind == FieldDescriptor.CPPTYPE_INT32:
        return max(-(2**31), min(2**31 - 1, number))
    return number if kind == FieldDescriptor.CPPTYPE_INT64 else abs(number) % 2**32
