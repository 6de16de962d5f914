"""The training methods: an interface, a module for each method, a registry."""

from sottovoce.cloud.models.methods.interface import AdaptedEncoder, Full, Head, Method
from sottovoce.cloud.models.methods.lora import Lora
from sottovoce.cloud.models.methods.prompt import Prefix, Prompt
from sottovoce.cloud.models.methods.registry import METHODS, check, from_dict, from_options, to_dict

__all__ = [
    "METHODS",
    "AdaptedEncoder",
    "Full",
    "Head",
    "Lora",
    "Method",
    "Prefix",
    "Prompt",
    "check",
    "from_dict",
    "from_options",
    "to_dict",
]
