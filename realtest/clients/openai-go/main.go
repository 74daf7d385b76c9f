// Command openai-go drives the router with the official Go client of OpenAI: openai-go URL MODEL. It exits with 1 where
// an answer is not as it must be.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: openai-go URL MODEL")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := openai.NewClient(option.WithBaseURL(os.Args[1]+"/v1"), option.WithAPIKey("none"),
		option.WithMaxRetries(0))
	for _, try := range []func(context.Context, openai.Client, string) error{models, chat, stream, response, wrong} {
		if err := try(ctx, client, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println("ok")
}

func question(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
		MaxTokens: openai.Int(8),
	}
}

func models(ctx context.Context, client openai.Client, model string) error {
	page, err := client.Models.List(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(page.Data, func(m openai.Model) bool { return m.ID == model }) {
		return fmt.Errorf("no %s among the models %v", model, page.Data)
	}
	return nil
}

func chat(ctx context.Context, client openai.Client, model string) error {
	answer, err := client.Chat.Completions.New(ctx, question(model))
	if err != nil {
		return err
	}
	if answer.Usage.CompletionTokens != 8 || answer.Choices[0].Message.Content == "" {
		return fmt.Errorf("chat: %s", answer.RawJSON())
	}
	return nil
}

func stream(ctx context.Context, client openai.Client, model string) error {
	asked := question(model)
	asked.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	events := client.Chat.Completions.NewStreaming(ctx, asked)
	defer events.Close()
	var all openai.ChatCompletionAccumulator
	for events.Next() {
		all.AddChunk(events.Current())
	}
	if err := events.Err(); err != nil {
		return err
	}
	if all.Usage.CompletionTokens != 8 || all.Choices[0].Message.Content == "" {
		return fmt.Errorf("stream: %+v", all.Usage)
	}
	return nil
}

func response(ctx context.Context, client openai.Client, model string) error {
	answer, err := client.Responses.New(ctx, responses.ResponseNewParams{
		Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")},
		MaxOutputTokens: openai.Int(8),
	})
	if err != nil {
		return err
	}
	if answer.OutputText() == "" {
		return fmt.Errorf("response: %s", answer.RawJSON())
	}
	return nil
}

// wrong asks for a model that is not there: the client must see its own kind of error, with the router's code and
// message.
func wrong(ctx context.Context, client openai.Client, model string) error {
	_, err := client.Chat.Completions.New(ctx, question("nothing"))
	var said *openai.Error
	if !errors.As(err, &said) || said.StatusCode != 404 || said.Code != "model_not_found" ||
		!strings.Contains(said.Message, model) {
		return fmt.Errorf("a wrong model: %w", err)
	}
	return nil
}
