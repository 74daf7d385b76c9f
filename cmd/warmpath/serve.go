package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
)

func serveCommand(e env) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve [URL...]",
		Short: "Route requests over engines",
		Long: `serve routes the requests of clients over engines until SIGINT or SIGTERM. Then it takes no new requests and
completes the running ones. Each URL is an engine, as with --endpoint. Flags override the environment (WARMPATH_...), which overrides the file:
that of --config, or warmpath.yaml in the working directory where no engine is given.`,
		Example: `  # Two engines, nothing else needed
  warmpath serve http://127.0.0.1:9001 http://127.0.0.1:9002

  # An engine with four data-parallel ranks, and one that takes twice its share
  warmpath serve --endpoint http://10.0.0.1:8000,kind=vllm,ranks=4 \
    --endpoint http://10.0.0.2:8000,weight=2

  # Would another policy do better? Ask it on live traffic, without obeying it
  warmpath serve -c warmpath.yaml --shadow round_robin,smg.cache_aware

  # Prompts are computed by two engines, answered by two others, where that pays
  warmpath serve --prefill http://10.0.0.1:8000 --prefill http://10.0.0.2:8000 \
    --decode http://10.0.0.3:8000 --decode http://10.0.0.4:8000

  # Two routers before the same engines, which decide as one (docs/replicas.md);
  # elsewhere than on loopback they need a secret
  warmpath serve -c warmpath.yaml --listen 127.0.0.1:8080 \
    --peer-listen 127.0.0.1:7946 --peers 127.0.0.1:7946,127.0.0.1:7947
  warmpath serve -c warmpath.yaml --listen 127.0.0.1:8081 --admin off \
    --peer-listen 127.0.0.1:7947 --peers 127.0.0.1:7946,127.0.0.1:7947

  # The same over a Redis or Valkey server that all of them reach
  warmpath serve -c warmpath.yaml --peers redis://127.0.0.1:6379/0

  # Another policy, and one name for two models
  warmpath serve --endpoint 127.0.0.1:9001 --policy round_robin \
    --model-alias fast=llama-8b,qwen-7b

  # In the place of trtllm-serve disaggregated, with its own file
  warmpath serve --trtllm-config disagg.yaml

  # Everything else is in the file
  warmpath serve -c warmpath.yaml`,
		Args: onlyURLs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.urls = args
			cfg, err := s.load(e)
			if err != nil {
				return err
			}
			if note := s.unread(e); note != "" && cfg.Log.Format != "json" {
				fmt.Fprintln(e.stderr, "warmpath: "+note)
			}
			return serve(cmd.Context(), e, &cfg, s.source(e), func() (config.Config, error) { return s.load(e) })
		},
	}
	s.add(cmd)
	return cmd
}
