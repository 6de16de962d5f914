"""What Presidio finds, run by the Python it is installed for: it is no dependency of this project.

Reads a JSON list of texts from standard input; writes, for each text a line, a JSON list of
[start, end] of what it would replace. The one argument is a spaCy pipeline, or nothing for the
pattern recognisers alone.
"""

import json
import sys
import tempfile
import warnings


def main() -> None:
    """Answers."""
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
