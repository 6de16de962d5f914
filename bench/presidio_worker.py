"""Run Presidio under a Python that has it installed; this project does not depend on Presidio.

The worker reads a JSON list of texts from standard input. For each text it writes a line: a JSON
list of the [start, end] that Presidio would replace. The one argument is a spaCy pipeline; an empty
argument selects the pattern recognisers alone.
"""

import json
import sys
import tempfile
import warnings


def main() -> None:
    """Answer the texts of standard input."""
    warnings.simplefilter("ignore")
    import spacy
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    name = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory() as blank:
        if not name:
            spacy.blank("en").to_disk(blank)
        models = [{"lang_code": "en", "model_name": name or blank}]
        settings = {"nlp_engine_name": "spacy", "models": models}
        engine = AnalyzerEngine(
            nlp_engine=NlpEngineProvider(nlp_configuration=settings).create_engine()
        )
        for text in json.load(sys.stdin):
            found = [(each.start, each.end) for each in engine.analyze(text, language="en")]
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
