"""A chat line: what is typed is privatised, and the answer is turned back as it comes.

python chat.py unix:/run/user/1000/sottovoce/agent.sock
"""

import asyncio
import sys

from sottovoce_client import AsyncAgent
from sottovoce_client.v1.edge_chat_pb2 import ChatTurn
from sottovoce_client.v1.generation_pb2 import ROLE_ASSISTANT, ROLE_USER


async def main() -> None:
    turns = []
    async with AsyncAgent(sys.argv[1]) as agent:
        while line := await asyncio.to_thread(sys.stdin.readline):
            turns.append(ChatTurn(role=ROLE_USER, text=line.rstrip("\n")))
            said = []
            async for event in agent.chat(turns):
                if event.WhichOneof("event") == "delta_text":
                    said.append(event.delta_text)
                    print(event.delta_text, end="", flush=True)
            print()
            turns.append(ChatTurn(role=ROLE_ASSISTANT, text="".join(said)))


asyncio.run(main())
