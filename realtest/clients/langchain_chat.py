"""LangChain against the router: langchain_chat.py URL MODEL. It fails where an answer is not as it must be."""

import sys

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI

url, model = sys.argv[1:]
chat = ChatOpenAI(model=model, base_url=url + "/v1", api_key="none", max_tokens=8, max_retries=0, timeout=60, stream_usage=True)

talk = [SystemMessage("be brief"), HumanMessage("hello")]
for _ in range(3):  # a conversation, whose prefix is known from the second turn on
    answer = chat.invoke(talk)
    assert answer.content and answer.usage_metadata["output_tokens"] == 8, answer
    talk += [AIMessage(answer.content), HumanMessage("go on")]

chunks = list(chat.stream(talk))
whole = sum(chunks[1:], chunks[0])
assert whole.content and whole.usage_metadata["output_tokens"] == 8, whole

assert len(chat.batch(["one", "two", "three"])) == 3
assert OpenAI(model=model, base_url=url + "/v1", api_key="none", max_tokens=4, max_retries=0).invoke("once")

answer = ChatOpenAI(model=model, base_url=url + "/v1", api_key="none", max_tokens=8, max_retries=0, use_responses_api=True).invoke("hello")
assert answer.content, answer

tools = chat.bind_tools([{"name": "weather", "description": "of a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}])
assert tools.invoke("hello").usage_metadata["input_tokens"] > 0

print("ok")
