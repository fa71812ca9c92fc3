"""Holds conversations with the vendors' own SDKs, as a JSON list on standard input tells, and says what it saw.

One conversation: {"api": chat | responses | messages | gemini, "base", "key", "model", "stream", "system", "user", "image",
"tools": [{"name", "parameters"}], "results": {name: text}, "errors": {name: text}, "headers", "most": requests at most,
"leave_after": events after which a stream is left, "list": a model to look up instead}.
What it saw: {"turns": [{"text", "calls", "finish", "usage"}], "seen": everything as JSON texts, "error"}.
"""
import base64
import json
import sys

PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
         "YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")


class Left(Exception):
    """The stream was left before its end."""


class Talk:
    def __init__(self, told):
        self.told = told
        self.turns = []
        self.seen = []

    def note(self, thing):
        dumped = thing.to_json() if hasattr(thing, "to_json") else thing.model_dump_json(exclude_none=True)
        self.seen.append(dumped)
        if self.told.get("leave_after") and len(self.seen) >= self.told["leave_after"]:
            raise Left

    def turn(self, text, calls, finish, usage):
        self.turns.append({"text": text, "calls": calls, "finish": finish, "usage": usage})
        return bool(calls) and len(self.turns) < self.told.get("most", 6)

    def answer(self, name):
        """What a tool of ours gives, and whether it failed."""
        errors = self.told.get("errors", {})
        return (errors[name], True) if name in errors else (self.told["results"][name], False)

    def arguments(self):
        told = self.told
        return {"base_url": told["base"], "api_key": told.get("key", "any"), "max_retries": 0,
                "timeout": 60, "default_headers": told.get("headers", {})}


def chat(talk):
    from openai import OpenAI
    told = talk.told
    client = OpenAI(**{**talk.arguments(), "base_url": told["base"] + "/v1"})
    if "list" in told:
        talk.turns.append({"models": [model.id for model in client.models.list()],
                           "one": client.models.retrieve(told["list"]).id})
        return
    content = [{"type": "text", "text": told["user"]}]
    if told.get("image"):
        content.append({"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}})
    messages = [{"role": "system", "content": told["system"]}] if told.get("system") else []
    messages.append({"role": "user", "content": content if told.get("image") else told["user"]})
    more = {}
    if told.get("tools"):
        more["tools"] = [{"type": "function", "function": {"name": tool["name"], "parameters": tool["parameters"]}}
                         for tool in told["tools"]]
    messages = told.get("messages", messages)
    while True:
        if told.get("stream"):
            text, calls, finish, usage = "", {}, None, None
            with client.chat.completions.create(model=told["model"], messages=messages, stream=True,
                                                stream_options={"include_usage": True}, **more) as stream:
                for chunk in stream:
                    talk.note(chunk)
                    usage = chunk.usage or usage
                    for choice in chunk.choices:
                        finish = choice.finish_reason or finish
                        text += choice.delta.content or ""
                        for piece in choice.delta.tool_calls or []:
                            call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                            call["id"] += piece.id or ""
                            call["name"] += piece.function.name or ""
                            call["arguments"] += piece.function.arguments or ""
            calls = [calls[index] for index in sorted(calls)]
        else:
            answer = client.chat.completions.create(model=told["model"], messages=messages, **more)
            talk.note(answer)
            said, usage, finish = answer.choices[0].message, answer.usage, answer.choices[0].finish_reason
            text = said.content or ""
            calls = [{"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
                     for call in said.tool_calls or []]
        usage = [usage.prompt_tokens, usage.completion_tokens] if usage else None
        shown = [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls]
        if not talk.turn(text, shown, finish, usage):
            return
        messages.append({"role": "assistant", "content": text or None, "tool_calls": [
            {"id": call["id"], "type": "function",
             "function": {"name": call["name"], "arguments": call["arguments"]}} for call in calls]})
        for call in calls:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": talk.answer(call["name"])[0]})


def responses(talk):
    from openai import OpenAI
    told = talk.told
    client = OpenAI(**{**talk.arguments(), "base_url": told["base"] + "/v1"})
    items = [{"role": "user", "content": told["user"]}]
    more = {"instructions": told["system"]} if told.get("system") else {}
    if told.get("tools"):
        more["tools"] = [{"type": "function", "name": tool["name"], "parameters": tool["parameters"], "strict": False}
                         for tool in told["tools"]]
    while True:
        more["store"] = bool(told.get("store"))
        if told.get("stream"):
            answer = None
            with client.responses.create(model=told["model"], input=items, stream=True, **more) as stream:
                for event in stream:
                    talk.note(event)
                    if event.type in ("response.completed", "response.incomplete", "response.failed"):
                        answer = event.response
            if answer is None or answer.status == "failed":
                raise RuntimeError(f"failed: {answer and answer.error and answer.error.message}")
        else:
            answer = client.responses.create(model=told["model"], input=items, **more)
            talk.note(answer)
        calls = [item for item in answer.output if item.type == "function_call"]
        shown = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in calls]
        usage = [answer.usage.input_tokens, answer.usage.output_tokens] if answer.usage else None
        going_on = talk.turn(answer.output_text, shown, answer.status, usage)
        if told.get("store"):
            talk.turns[-1]["kept"] = client.responses.retrieve(answer.id).id == answer.id
        if not going_on:
            return
        results = [{"type": "function_call_output", "call_id": call.call_id, "output": talk.answer(call.name)[0]}
                   for call in calls]
        if told.get("store"):
            more["previous_response_id"], items = answer.id, results
        else:
            items += [item.to_dict() for item in answer.output] + results


def messages(talk):
    import anthropic
    told = talk.told
    client = anthropic.Anthropic(**talk.arguments())
    if "list" in told:
        talk.turns.append({"models": [model.id for model in client.models.list()],
                           "one": client.models.retrieve(told["list"]).id})
        return
    content = [{"type": "text", "text": told["user"]}]
    if told.get("image"):
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        content.append({"type": "image", "source": source})
    said = told.get("messages", [{"role": "user", "content": content}])
    more = {"system": told["system"]} if told.get("system") else {}
    if told.get("tools"):
        more["tools"] = [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in told["tools"]]
    while True:
        if told.get("stream"):
            with client.messages.stream(model=told["model"], max_tokens=1000, messages=said, **more) as stream:
                for event in stream:
                    talk.note(event)
                answer = stream.get_final_message()
        else:
            answer = client.messages.create(model=told["model"], max_tokens=1000, messages=said, **more)
            talk.note(answer)
        text = "".join(block.text for block in answer.content if block.type == "text")
        calls = [block for block in answer.content if block.type == "tool_use"]
        shown = [{"name": call.name, "arguments": call.input} for call in calls]
        usage = [answer.usage.input_tokens, answer.usage.output_tokens]
        if not talk.turn(text, shown, answer.stop_reason, usage):
            return
        said.append({"role": "assistant", "content": [block.to_dict() for block in answer.content]})
        results = []
        for call in calls:
            output, failed = talk.answer(call.name)
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": output, "is_error": failed})
        if told.get("beside"):
            results.append({"type": "text", "text": told["beside"]})
        said.append({"role": "user", "content": results})


def gemini(talk):
    from google import genai
    from google.genai import types
    told = talk.told
    options = types.HttpOptions(base_url=told["base"], timeout=60000, headers=told.get("headers"),
                                retry_options=types.HttpRetryOptions(attempts=1))
    client = genai.Client(api_key=told.get("key", "any"), http_options=options)
    if "list" in told:
        talk.turns.append({"models": [model.name for model in client.models.list()],
                           "one": client.models.get(model=told["list"]).name})
        return
    parts = [types.Part(text=told["user"])]
    if told.get("image"):
        parts.append(types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png"))
    said = [types.Content(role="user", parts=parts)]
    settings = {"system_instruction": told["system"]} if told.get("system") else {}
    if told.get("tools"):
        settings["tools"] = [types.Tool(function_declarations=[
            types.FunctionDeclaration(name=tool["name"], description=tool["name"],
                                      parameters_json_schema=tool["parameters"]) for tool in told["tools"]])]
        settings["automatic_function_calling"] = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(**settings)
    while True:
        answers = ([client.models.generate_content(model=told["model"], contents=said, config=config)]
                   if not told.get("stream")
                   else client.models.generate_content_stream(model=told["model"], contents=said, config=config))
        parts, finish, usage = [], None, None
        for answer in answers:
            talk.note(answer)
            usage = answer.usage_metadata or usage
            for candidate in answer.candidates or []:
                finish = candidate.finish_reason or finish
                parts += (candidate.content and candidate.content.parts) or []
        if finish is None:
            raise RuntimeError("the stream ended without its end")
        calls = [part.function_call for part in parts if part.function_call]
        text = "".join(part.text for part in parts if part.text and not part.thought)
        shown = [{"name": call.name, "arguments": call.args} for call in calls]
        usage = [usage.prompt_token_count, usage.candidates_token_count] if usage else None
        if not talk.turn(text, shown, finish.value, usage):
            return
        said.append(types.Content(role="model", parts=parts))
        said.append(types.Content(role="user", parts=[
            types.Part(function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"result": talk.answer(call.name)[0]})) for call in calls]))


def hold(told):
    talk, error = Talk(told), None
    try:
        {"chat": chat, "responses": responses, "messages": messages, "gemini": gemini}[told["api"]](talk)
    except Left:
        error = {"class": "Left"}
    except Exception as problem:
        status = getattr(problem, "status_code", None) or getattr(problem, "code", None)
        error = {"class": type(problem).__name__, "status": status, "message": str(problem)}
        response = getattr(problem, "response", None)
        if response is not None and getattr(response, "headers", None):
            error["retry_after"] = response.headers.get("retry-after")
    return {"turns": talk.turns, "seen": talk.seen, "error": error}


if __name__ == "__main__":
    json.dump([hold(told) for told in json.load(sys.stdin)], sys.stdout)
