"""OpenAI's endpoints: requests of its five kinds, answered by the agent."""
