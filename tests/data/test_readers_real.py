"""Real data sets are read whole: as many rows, entities, answers and articles as their makers say."""

from collections import Counter
from functools import partial

import pytest
from reader_checks import balanced, notes

from glassformer.data.conll import read_tagged
from glassformer.data.documents import read_documents, stream_documents
from glassformer.data.parallel import read_parallel
from glassformer.data.squad import read_asked
from glassformer.data.table import read_labelled

pytestmark = pytest.mark.slow

predict = partial(read_labelled, require_target=False)
scores = partial(read_labelled, kind="regression")
cola = partial(read_labelled, columns={"label": "1", "text": "3"})
sts_test = partial(read_labelled, columns={"label": 4, "text": 5, "pair": 6}, kind="regression")
trec = partial(read_labelled, file_format="first-word")
articles = partial(read_documents, unit="article")

COUNTS = [
    (read_labelled, "glue/SST-2/train.tsv", 67349),
    (read_labelled, "glue/SST-2/dev.tsv", 872),
    (predict, "glue/SST-2/test.tsv", 1821),
    (cola, "glue/CoLA/train.tsv", 8551),
    (cola, "glue/CoLA/dev.tsv", 1043),
    (predict, "glue/CoLA/test.tsv", 1063),
    (read_labelled, "glue/MRPC/train.tsv", 3668),
    (read_labelled, "glue/MRPC/dev.tsv", 408),
    (read_labelled, "glue/MRPC/msr_paraphrase_test.txt", 1725),
    (predict, "glue/MRPC/test.tsv", 1725),
    (read_labelled, "glue/RTE/train.tsv", 2490),
    (read_labelled, "glue/RTE/dev.tsv", 277),
    (predict, "glue/RTE/test.tsv", 3000),
    (scores, "glue/STS-B/train.tsv", 5749),
    (scores, "glue/STS-B/dev.tsv", 1500),
    (predict, "glue/STS-B/test.tsv", 1379),
    (sts_test, "glue/STS-B/sts-test-labelled.tsv", 1379),
    (read_labelled, "chnsenticorp/train.tsv", 9600),
    (read_labelled, "chnsenticorp/dev.tsv", 1200),
    (read_labelled, "chnsenticorp/test.tsv", 1200),
    (trec, "trec/TREC.train", 5452),
    (trec, "trec/TREC.test", 500),
    (read_asked, "squad/dev-v1.1.json", 10570),
    (read_asked, "squad/dev-v2.0.reconstructed.json", 11873),
    (read_asked, "squad/train-subset.json", 4000),
    (read_parallel, "tatoeba/fra.txt", 167130),
    (read_parallel, "tatoeba/cmn.txt", 29155),
    (articles, "wikitext2/train.txt", 600),
    (articles, "wikitext2/valid.txt", 60),
    (articles, "wikitext2/test.txt", 60),
    (read_documents, "chinese_poetry/tang300.jsonl", 366),
]


@pytest.mark.parametrize(("reader", "name", "count"), COUNTS, ids=[name for _, name, _ in COUNTS])
def test_every_row_is_read_and_none_skipped(data, reader, name, count):
    read = balanced(reader(str(data / name)))
    assert len(read.examples) == count
    assert read.report.skipped == {}


def test_pairs_and_labels_are_what_they_are_said_to_be(data):
    mrpc = read_labelled(data / "glue/MRPC/dev.tsv").examples[0]
    assert mrpc.text.startswith("He said the foodservice pie business")
    assert mrpc.pair.startswith('"The foodservice pie business')
    assert mrpc.label == "1"
    assert Counter(one.label for one in read_labelled(data / "glue/SST-2/dev.tsv").examples) == {"1": 444, "0": 428}
    assert {one.label for one in read_labelled(data / "glue/RTE/dev.tsv").examples} == {"entailment", "not_entailment"}
    assert scores(data / "glue/STS-B/dev.tsv").examples[1].label == 4.75


def test_a_class_in_each_file(data):
    read = balanced(read_labelled([f"{kind}={data}/rt-polarity/rt-polarity.{kind}" for kind in ("pos", "neg")]))
    assert Counter(one.label for one in read.examples) == {"pos": 5331, "neg": 5331}


def test_the_one_byte_of_trec_that_is_not_utf_8(data):
    assert list(notes(trec(data / "trec/TREC.train")).values()) == [(1, 66)]


@pytest.mark.parametrize(
    ("name", "sentences", "words", "entities"),
    [
        ("train", 14041, 203621, {"LOC": 7140, "PER": 6600, "ORG": 6321, "MISC": 3438}),
        ("testa", 3250, 51362, {"LOC": 1837, "PER": 1842, "ORG": 1341, "MISC": 922}),
        ("testb", 3453, 46435, {"LOC": 1668, "PER": 1617, "ORG": 1661, "MISC": 702}),
    ],
)
def test_conll_2003_has_the_figures_of_the_shared_task(data, name, sentences, words, entities):
    read = balanced(read_tagged(data / f"conll2003/eng.{name}"))
    assert (len(read.examples), sum(len(one.words) for one in read.examples)) == (sentences, words)
    begun = Counter(tag[2:] for one in read.examples for tag in one.tags if tag.startswith("B-"))
    assert begun == entities
    assert "tags: IOB1, given as IOB2" in read.report.taken


@pytest.mark.parametrize(
    ("name", "answered"), [("dev-v1.1", 10570), ("dev-v2.0.reconstructed", 5928), ("train-subset", 4000)]
)
def test_every_answer_of_squad_is_where_it_says(data, name, answered):
    read = read_asked(data / f"squad/{name}.json")
    assert sum(bool(one.answers) for one in read.examples) == answered
    assert read.report.noted == {}
    for one in read.examples:
        for answer in one.answers:
            assert one.context[answer.start : answer.start + len(answer.text)] == answer.text


@pytest.mark.parametrize(("split", "count"), [("train", 29000), ("val", 1014), ("test_2016_flickr", 1000)])
@pytest.mark.parametrize("language", ["de", "fr"])
def test_multi30k_is_read_line_by_line(data, split, count, language):
    read = balanced(read_parallel([data / f"multi30k/{split}.en", data / f"multi30k/{split}.{language}"]))
    assert len(read.examples) == count
    assert read.report.skipped == {}


@pytest.mark.parametrize("name", ["tinyshakespeare/input.txt", "wikitext2/valid.txt"])
@pytest.mark.parametrize("unit", ["file", "article"])
def test_language_models_see_every_byte(data, name, unit):
    whole = "".join(one.text for one in stream_documents(data / name, unit=unit))
    assert whole.encode("utf-8") == (data / name).read_bytes()
