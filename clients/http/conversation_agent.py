"""A conversation agent as home automation has them, over HTTP and the standard library alone.

Home Assistant hands over what was said and the conversation's name and speaks the answer; here
both come from the command line.

OPENAI_ADDRESS=http://127.0.0.1:8472/v1 KEY=$(cat openai.key) \\
    python conversation_agent.py kitchen "..."
"""

import json
import os
import sys
import urllib.request

TURNS = 20
"""Of a conversation, its last, are told again."""
CONVERSATIONS = 100
"""Are remembered, those that were spoken in last."""


class ConversationAgent:
    """Answers utterances through the agent's OpenAI endpoint."""

    def __init__(self, base: str, key: str) -> None:
        self._url, self._key = f"{base}/chat/completions", key
        self._said: dict[str, list[dict[str, str]]] = {}
        # No proxy: what is sent to the OpenAI endpoint is clear text.
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def process(self, conversation: str, utterance: str) -> str:
        """What to speak."""
        turns = [*self._said.get(conversation, []), {"role": "user", "content": utterance}]
        request = urllib.request.Request(  # noqa: S310 - the owner's address
            self._url,
            json.dumps({"model": "default", "messages": turns}).encode(),
            {
                "Authorization": f"Bearer {self._key}",
                "Content-Type": "application/json",
                "X-Sottovoce-Conversation": conversation,
            },
        )
        with self._http.open(request, timeout=60) as answer:
            speech = json.load(answer)["choices"][0]["message"]["content"]
        self._said.pop(conversation, None)  # it goes to the end
        self._said[conversation] = [*turns, {"role": "assistant", "content": speech}][-TURNS:]
        while len(self._said) > CONVERSATIONS:
            del self._said[next(iter(self._said))]
        return speech


agent = ConversationAgent(os.environ["OPENAI_ADDRESS"], os.environ["KEY"])
for said in sys.argv[2:]:
    print(agent.process(sys.argv[1], said))
