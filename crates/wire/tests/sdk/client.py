"""Reads answers with a vendor's own SDK and tells what it made of them.

usage: client.py PROTOCOL BASE_URL SCENE...

For each scene the answer is asked for as a stream and as a whole, from BASE_URL/SCENE. Each reading is one line of JSON
on standard output: scene, mode, text, refusal, thinking, calls ([id, name, arguments as JSON text]), stop, usage, error.
Ends with code 3 where the SDK is not there.
"""

import json
import sys


def text_of(value):
    return "" if value is None else str(value)


def empty():
    return {"text": "", "refusal": "", "thinking": "", "calls": [], "stop": None, "usage": {}, "error": None}


def counts(pairs):
    return {name: value for name, value in pairs if value is not None}


class Chat:
    def __init__(self, base):
        import openai

        self.errors = openai.APIError
        self.client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)
        self.ask = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}

    def stream(self, told):
        options = {"include_usage": True}
        with self.client.chat.completions.stream(**self.ask, stream_options=options) as stream:
            try:
                for _ in stream:
                    pass
            finally:
                try:
                    self.tell(stream.current_completion_snapshot, told)
                except AssertionError:
                    pass

    def whole(self, told):
        self.tell(self.client.chat.completions.create(**self.ask), told)

    @staticmethod
    def tell(completion, told):
        choice = completion.choices[0]
        message = choice.message
        told["text"] = text_of(message.content)
        told["refusal"] = text_of(message.refusal)
        told["thinking"] = text_of((message.model_extra or {}).get("reasoning_content"))
        for call in message.tool_calls or []:
            told["calls"].append([call.id, call.function.name, call.function.arguments])
        told["stop"] = choice.finish_reason
        if completion.usage is not None:
            usage = completion.usage
            told["usage"] = counts([
                ("input", usage.prompt_tokens),
                ("output", usage.completion_tokens),
                ("total", usage.total_tokens),
                ("cache_read", usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens),
                ("reasoning", usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens),
            ])


class Responses:
    def __init__(self, base):
        import openai

        self.errors = openai.APIError
        self.client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)
        self.ask = {"model": "m", "input": "Hello"}

    def stream(self, told):
        last = None
        with self.client.responses.stream(**self.ask) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    told["text"] += event.delta
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    last = event.response
                    if event.type == "response.completed":
                        last = stream.get_final_response()
        streamed = told["text"]
        self.tell(last, told)
        if told["error"] is None and streamed != told["text"]:
            raise ValueError(f"the pieces are {streamed!r}, the whole is {told['text']!r}")
        told["text"] = told["text"] or streamed

    def whole(self, told):
        self.tell(self.client.responses.create(**self.ask), told)

    @staticmethod
    def tell(response, told):
        told["text"] = response.output_text
        for item in response.output:
            if item.type == "message":
                told["refusal"] += "".join(part.refusal for part in item.content if part.type == "refusal")
            elif item.type == "reasoning":
                told["thinking"] += "".join(part.text for part in item.summary)
            elif item.type == "function_call":
                told["calls"].append([item.call_id, item.name, item.arguments])
        told["stop"] = response.status
        if response.incomplete_details is not None:
            told["stop"] = response.incomplete_details.reason
        if response.error is not None:
            told["error"] = response.error.message
        if response.usage is not None:
            usage = response.usage
            told["usage"] = counts([
                ("input", usage.input_tokens),
                ("output", usage.output_tokens),
                ("total", usage.total_tokens),
                ("cache_read", usage.input_tokens_details.cached_tokens),
                ("cache_write", usage.input_tokens_details.cache_write_tokens),
                ("reasoning", usage.output_tokens_details.reasoning_tokens),
            ])


class Anthropic:
    def __init__(self, base):
        import anthropic

        self.errors = anthropic.APIError
        self.client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0)
        self.ask = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}

    def stream(self, told):
        with self.client.messages.stream(**self.ask) as stream:
            try:
                for _ in stream:
                    pass
            finally:
                try:
                    self.tell(stream.current_message_snapshot, told)
                except AssertionError:
                    pass

    def whole(self, told):
        self.tell(self.client.messages.create(**self.ask), told)

    @staticmethod
    def tell(message, told):
        for block in message.content:
            if block.type == "text":
                told["text"] += block.text
            elif block.type == "thinking":
                told["thinking"] += block.thinking
            elif block.type == "tool_use":
                told["calls"].append([block.id, block.name, json.dumps(block.input)])
        told["stop"] = message.stop_reason
        usage = message.usage
        told["usage"] = counts([
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cache_read", usage.cache_read_input_tokens),
            ("cache_write", usage.cache_creation_input_tokens),
        ])


class Gemini:
    def __init__(self, base):
        from google import genai
        from google.genai import errors, types

        self.errors = errors.APIError
        options = types.HttpOptions(base_url=base, api_version="v1beta")
        self.client = genai.Client(api_key="none", http_options=options)
        self.ask = {"model": "m", "contents": "Hello"}

    def stream(self, told):
        for chunk in self.client.models.generate_content_stream(**self.ask):
            self.tell(chunk, told)

    def whole(self, told):
        self.tell(self.client.models.generate_content(**self.ask), told)

    @staticmethod
    def tell(answer, told):
        for candidate in answer.candidates or []:
            for part in (candidate.content and candidate.content.parts) or []:
                if part.function_call is not None:
                    call = part.function_call
                    told["calls"].append([call.id, call.name, json.dumps(call.args)])
                elif part.text is not None:
                    told["thinking" if part.thought else "text"] += part.text
            if candidate.finish_reason is not None:
                told["stop"] = candidate.finish_reason.value
        if answer.usage_metadata is not None:
            usage = answer.usage_metadata
            told["usage"] = counts([
                ("input", usage.prompt_token_count),
                ("candidates", usage.candidates_token_count),
                ("reasoning", usage.thoughts_token_count),
                ("total", usage.total_token_count),
                ("cache_read", usage.cached_content_token_count),
            ])


KINDS = {"openai_chat": Chat, "openai_responses": Responses, "anthropic_messages": Anthropic, "gemini": Gemini}


def main():
    protocol, base, scenes = sys.argv[1], sys.argv[2], sys.argv[3:]
    kind = KINDS[protocol]
    try:
        kind(base)
    except ImportError as error:
        print(f"{error}", file=sys.stderr)
        sys.exit(3)
    for scene in scenes:
        reader = kind(f"{base}/{scene}")
        for mode in ("stream", "whole"):
            told = empty()
            try:
                getattr(reader, mode)(told)
            except reader.errors as error:
                told["error"] = str(error)
            except Exception as error:  # The test tells of it: no SDK may stumble.
                told["stumbled"] = f"{type(error).__name__}: {error}"
            print(json.dumps({"scene": scene, "mode": mode, **told}), flush=True)


main()
