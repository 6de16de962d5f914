"""Functions in both formats of OpenAI's API.

In a chat, a tool holds its function in a field. In a response, the tool is the function.
"""

from __future__ import annotations

import json
from typing import Any, Final

from sottovoce.edge.daemon.doorway.fields import Fields, refuse
from sottovoce.edge.tasks.functions import MOST_TOOLS
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

__all__ = ["add"]

_USES: Final = {
    "auto": generation.TOOL_USE_UNSPECIFIED,
    "none": generation.TOOL_USE_NONE,
    "required": generation.TOOL_USE_REQUIRED,
}


def add(asked: chats.ChatRequest, fields: Fields, *, nested: bool) -> None:
    """Add a request's functions, and which functions may or must be called.

    Args:
        asked: the request to add to.
        fields: the received request.
        nested: whether a tool holds its function in a field.
    """
    for number, each in enumerate(fields.items("tools", MOST_TOOLS)):
        tool = Fields(each, f"tools[{number}]")
        asked.tools.append(_definition(_inner(tool, nested)))
        tool.end()
    chosen: Any = fields.take("tool_choice")
    if isinstance(chosen, dict):
        choice = Fields(chosen, "tool_choice")
        function = _inner(choice, nested)
        asked.tool = function.text("name")
        function.end()
        choice.end()
    elif chosen is not None:
        if not isinstance(chosen, str) or chosen not in _USES:
            refuse(fields.where("tool_choice"), "is unknown", f"use one of {', '.join(_USES)}")
        asked.tool_use = _USES[chosen]
    parallel = fields.flag("parallel_tool_calls", None)
    if parallel is not None:
        asked.parallel_tool_calls = parallel


def _inner(tool: Fields, nested: bool) -> Fields:
    if tool.text("type") != "function":
        refuse(tool.where("type"), "is not supported", 'use "function"')
    if not nested:
        return tool
    function = tool.nested("function")
    if function is None:
        refuse(tool.where("function"), "is missing")
    return function


def _definition(function: Fields) -> chats.ChatTool:
    name, description = function.text("name"), function.text("description", "")
    parameters: Any = function.take("parameters")
    function.flag("strict")  # the client checks the arguments; the schema leaves without bounds
    found = chats.ChatTool(
        name=name,
        description=description,
        parameters="" if parameters is None else json.dumps(parameters),
    )
    function.end()
    return found
