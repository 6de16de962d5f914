"""A sensor that streams: a reading a line in, what left of it and its label out.

python sensor.py unix:/run/user/1000/sottovoce/agent.sock ADAPTER < readings
"""

import sys

from sottovoce_client import Agent

address, adapter = sys.argv[1:]
with Agent(address) as agent:
    for answer in agent.predict(adapter, (line.rstrip("\n") for line in sys.stdin)):
        print(answer.released_text, answer.label, sep="\t", flush=True)
