"""OpenAI's Agents SDK against the router: openai_agents.py URL MODEL. It fails where an answer is not as it must be."""

import asyncio
import sys

import openai
from agents import Agent, ModelSettings, Runner, SQLiteSession, function_tool, set_default_openai_api, set_default_openai_client, set_tracing_disabled

url, model = sys.argv[1:]
set_tracing_disabled(True)
set_default_openai_client(openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=60), use_for_tracing=False)


@function_tool
def weather(city: str) -> str:
    """Tells the weather of a city."""
    return "fair"


async def play():
    for api in ("responses", "chat_completions"):
        set_default_openai_api(api)
        settings = ModelSettings(max_tokens=8, include_usage=True)
        agent = Agent(name="first", instructions="Be brief. " * 40, model=model, tools=[weather], model_settings=settings)
        session = SQLiteSession("run")
        for _ in range(3):
            run = await Runner.run(agent, "hello", session=session)
            assert run.final_output and run.context_wrapper.usage.output_tokens == 8, run
        assert run.context_wrapper.usage.input_tokens_details.cached_tokens > 0, f"{api}: the third turn finds nothing cached"
        run = Runner.run_streamed(Agent(name="second", model=model, handoffs=[agent], model_settings=settings), "stream")
        assert len([e async for e in run.stream_events()]) > 3 and run.final_output
    try:
        await Runner.run(Agent(name="third", model="nothing"), "hello")
        raise AssertionError("a model that is not there answers")
    except openai.NotFoundError as e:
        assert e.code == "model_not_found", e


asyncio.run(play())
print("ok")
