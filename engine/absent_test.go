package engine

import (
	"strings"
	"testing"
)

// TestAbsent: what each kind of engine answers to a path that it does not have, and to something else that it does not
// have.
func TestAbsent(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   Absence
	}{
		{"FastAPI", 404, `{"detail":"Not Found"}`, AbsentPath},
		{"FastAPI, other method", 405, `{"detail":"Method Not Allowed"}`, AbsentPath},
		{
			"vllm, wrapped", 404, `{"error":{"message":"Not Found","type":"NotFoundError","param":null,"code":404}}`,
			AbsentPath,
		},
		{
			"sglang, wrapped", 404,
			`{"object":"error","message":"Not Found","type":"NotFound","param":null,"code":404}`, AbsentPath,
		},
		{"llamacpp", 404, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`, AbsentPath},
		{
			"llama.cpp as a router, a model that has gone", 400,
			`{"error":{"code":400,"message":"model name=m is not running","type":"invalid_request_error"}}`,
			AbsentModel,
		},
		{
			"llama.cpp as a router, a model that is not loaded", 400,
			`{"error":{"code":400,"message":"model is not loaded","type":"invalid_request_error"}}`, AbsentModel,
		},
		{"LM Studio, unloaded meanwhile", 400, `{"error":"Model unloaded by user or API request."}`, AbsentModel},
		{"LM Studio, unloaded", 400, `{"error":"Model is unloaded."}`, AbsentModel},
		{
			"LM Studio, nothing loaded", 400, `{"error":{"message":"No models loaded. Please load a model in the ` +
				`developer page or use the 'lms load' command.","type":"invalid_request_error","param":"model"}}`,
			AbsentModel,
		},
		{
			"LM Studio, a load that failed", 400, `{"error":"Failed to load model \"m\". Error: Operation canceled."}`,
			AbsentModel,
		},
		{"LM Studio, unknown", 400, `{"error":{"message":"Invalid model identifier \"m\"."}}`, AbsentModel},
		{"LM Studio, another kind", 400, `{"error":"Model is not embedding"}`, AbsentNothing},
		{"ollama", 404, "404 page not found", AbsentPath},
		{"ollama 0.33, path", 404, string(fixture(t, "ollama/0.33.0-rc2/no_path.txt")), AbsentPath},
		{"ollama 0.33, model", 404, string(fixture(t, "ollama/0.33.0-rc2/no_model.json")), AbsentModel},
		{"ollama 0.33, model, OpenAI", 404, string(fixture(t, "ollama/0.33.0-rc2/no_model_openai.json")), AbsentModel},
		{
			"ollama 0.33, model, Anthropic", 404, string(fixture(t, "ollama/0.33.0-rc2/no_model_anthropic.json")),
			AbsentModel,
		},
		{"ollama 0.33, a prompt too long", 400, string(fixture(t, "ollama/0.33.0-rc2/too_long.json")), AbsentNothing},
		{"ollama, other method", 405, "405 method not allowed", AbsentPath},
		{"net/http", 404, "404 page not found\n", AbsentPath},
		{"nothing", 404, "", AbsentPath},
		{"nginx ingress", 404, "default backend - 404", AbsentPath},
		{"Kong", 404, `{"message":"no Route matched with those values","request_id":"5"}`, AbsentPath},
		{"S3", 404, `<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>`, AbsentOther},
		{"nginx", 404, "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body></body></html>", AbsentPath},
		{
			"vllm, model", 404, `{"error":{"message":"The model ` + "`m`" +
				` does not exist.","type":"NotFoundError","param":"model","code":404}}`, AbsentModel,
		},
		{"vllm 0.33, model", 404, `{"error":{"message":"The model ` + "`nope`" +
			` does not exist. Valid aliases: tiny.","type":"NotFoundError","param":"model","code":404}}`, AbsentModel},
		{"vllm 0.33, Anthropic's form", 404, `{"type":"error","error":{"type":"not_found_error","message":"The model ` +
			"`nope`" + ` does not exist. Valid aliases: tiny."}}`, AbsentModel},
		{
			"vllm, many names", 404, `{"error":{"message":"The model ` + "`nope`" + ` does not exist. Valid aliases: ` +
				strings.Repeat("a-name-of-the-model, ", 100) + `","type":"NotFoundError","param":"model","code":404}}`,
			AbsentModel,
		},
		{
			"llama.cpp b11669, no embeddings", 501,
			"{\"error\":{\"code\":501,\"message\":\"This server does not support embeddings. " +
				"Start it with `--embeddings`\"," +
				"\"type\":\"not_supported_error\"}}", AbsentUse,
		},
		{
			"llama.cpp b11669, no reranking", 501,
			"{\"error\":{\"code\":501,\"message\":\"This server does not support reranking. " +
				"Start it with `--reranking`\"," +
				"\"type\":\"not_supported_error\"}}", AbsentUse,
		},
		{"llama.cpp b11669, a model without infill", 501, `{"error":{"code":501,"message":"Infill is not supported by this model: prefix token is missing. suffix token is missing. middle token is missing. ","type":"not_supported_error"}}`, AbsentNothing},
		{"vllm 0.33, decisions", 501, `{"error":{"message":"The model does not support the Decisions API","type":"NotImplementedError","param":null,"code":501}}`, AbsentNothing},
		{
			"vllm, old, model", 404, `{"object":"error","message":"The model ` + "`m`" +
				` does not exist.","type":"NotFoundError","param":null,"code":404}`, AbsentModel,
		},
		{"vllm, response", 404, `{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":null,"code":404}}`, AbsentOther},
		{"trtllm, response", 404, `{"object":"error","message":"Response with id 'resp_gone' not found.","type":"InvalidRequestError","param":null,"code":404}`, AbsentOther},
		{"trtllm, path", 404, string(fixture(t, "trtllm/0076e939/no_path.json")), AbsentPath},
		{"trtllm, method", 405, string(fixture(t, "trtllm/0076e939/no_method.json")), AbsentPath},
		{"trtllm, no model named", 400, string(fixture(t, "trtllm/0076e939/no_model.json")), AbsentNothing},
		{"trtllm, unknown member", 400, string(fixture(t, "trtllm/0076e939/unknown_field.json")), AbsentNothing},
		{"trtllm, the request repeated", 400, string(fixture(t, "trtllm/0076e939/stream_options.json")), AbsentNothing},
		{"trtllm, no JSON", 400, string(fixture(t, "trtllm/0076e939/bad_json.json")), AbsentNothing},
		{"trtllm, a prompt too long", 400, string(fixture(t, "trtllm/0076e939/too_long.json")), AbsentNothing},
		{"trtllm, ending", 400, string(fixture(t, "trtllm/0076e939/down.json")), AbsentNothing},
		{"ollama, model", 404, `{"error":"model \"m\" not found, try pulling it first"}`, AbsentModel},
		{
			"ollama, model, OpenAI", 404,
			`{"error":{"message":"model 'm' not found","type":"not_found_error","param":null,"code":null}}`,
			AbsentModel,
		},
		{
			"anthropic shape", 404, `{"type":"error","error":{"type":"not_found_error","message":"model: m"}}`,
			AbsentModel,
		},
		{"text", 404, "no such adapter: sql", AbsentModel},
		{"sglang, adapter", 400, `{"object":"error","message":"The following requested LoRA adapters are not loaded: sql","type":"BadRequestError","code":400}`, AbsentModel},
		{
			"llamacpp, router", 400,
			`{"error":{"code":400,"message":"model 'm' not found","type":"invalid_request_error"}}`, AbsentModel,
		},
		{"text, 400", 400, "Unknown model: m", AbsentModel},
		{
			"Xinference", 400,
			`{"detail":"[address=0.0.0.0:51672, pid=57224] Model not found, uid: qwen-1-0"}`, AbsentModel,
		},
		{"Xinference, the list", 400, `{"detail":"Model not found in the model list, uid: qwen"}`, AbsentModel},
		{
			"Xinference, something else", 400,
			`{"detail":"[address=0.0.0.0:51672, pid=57224] Image not found: https://x/model not found"}`, AbsentNothing,
		},
		{"TabbyAPI", 400, `{"detail":"No models are currently loaded."}`, AbsentModel},
		{"llama-swap", 400, `{"error":"could not find suitable inference handler for m"}`, AbsentModel},
		{"llama-swap, as a text", 400, "could not find suitable inference handler for m", AbsentModel},
		{
			"LiteLLM", 400, `{"error":{"message":"/chat/completions: Invalid model name passed in model=m. Call ` +
				"`/v1/models` to view available models for your key." + `","type":"None","param":"None","code":"400"}}`,
			AbsentModel,
		},
		{
			"LiteLLM, older", 400, `{"error":{"message":"{'error': '/chat/completions: Invalid model name passed in ` +
				`model=m'}","type":"None","param":"None","code":400}}`, AbsentModel,
		},
		{
			"vllm, model, 400", 400, `{"error":{"message":"The model ` + "`m`" + ` does not exist.","code":400}}`,
			AbsentModel,
		},
		{"an image of the client's", 400, `{"error":{"message":"404, message='Not Found', url='https://h/models/cat.png'","type":"BadRequestError","param":null,"code":400}}`, AbsentNothing},
		{"a file of the client's", 400, `{"detail":"cannot open model.png: no such file or directory"}`, AbsentNothing},
		{
			"a tool of the client's", 400, `{"error":{"message":"Tool 'load_model' not found in tools","code":400}}`,
			AbsentNothing,
		},
		{
			"a request's fault", 400,
			`{"error":{"message":"This model's maximum context length is 4096 tokens.","code":400}}`, AbsentNothing,
		},
		{"odd", 404, `{"error":["Not Found"]}`, AbsentOther},
		{"cut off", 404, `{"error":{"message":"The mod`, AbsentOther},
		{"400", 400, `{"detail":"Not Found"}`, AbsentNothing},
		{"200", 200, "", AbsentNothing},
		{
			"501", 501,
			`{"error":{"code":501,"message":"This server does not support multimodal","type":"not_supported_error"}}`,
			AbsentNothing,
		},
		{"500", 500, "404 page not found", AbsentNothing},
	} {
		if got := Absent(test.status, []byte(test.body)); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func FuzzAbsent(f *testing.F) {
	f.Add(404, []byte(`{"detail":"Not Found"}`))
	f.Add(405, []byte(""))
	f.Add(404, []byte(`{"error":{"message":5}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if got := Absent(status, body); got > AbsentOther ||
			got != AbsentNothing && (status != 400 || got != AbsentModel) && (status != 501 || got != AbsentUse) &&
				status != 404 && status != 405 {
			t.Errorf("%d: %d", status, got)
		}
	})
}
