"""Real engines behind the router. Run by run.sh; each kind that is not installed is skipped with its reason.

Settings: WARMPATH_REAL (where install.sh put the engines), REAL_ROUTER (the router; without it the tests talk to one
engine directly, which shows that what they expect is what engines do), REAL_KINDS ("vllm llama"), REAL_LOGS (a folder).
"""

import unittest

from doors import Doors
from ends import Ends, LlamaEnds, OllamaEnds, SGLangEnds, VLLMEnds
from fleet import Fleet
from ollama_doors import OllamaDoors
from talks import Talks


class LlamaTest(LlamaEnds, Ends, Talks, Doors, Fleet):
    kind = "llama"


class OllamaTest(OllamaEnds, Ends, OllamaDoors, Talks, Doors, Fleet):
    kind = "ollama"


class SGLangTest(SGLangEnds, Ends, Talks, Doors, Fleet):
    kind = "sglang"


class VLLMTest(VLLMEnds, Ends, Talks, Doors, Fleet):
    kind = "vllm"


if __name__ == "__main__":
    unittest.main(verbosity=2)
