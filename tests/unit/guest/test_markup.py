"""The tree gives back what it was given, byte for byte, but for the change."""

import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.guest import markup, parsing, tree
from tests.unit.guest import corpus
from tests.unit.guest.test_parsing import HOSTILE, SMALL, nested

ODD = """<?xml version="1.0" encoding='UTF-8'?>
<!-- before <domain> -->
<domain   type = 'a"&gt;b'  x="/>"
 ><!-- <b/> --><name >ä &amp; &#228; <![CDATA[</name>]]></name>
\t<empty/><empty />
 <a b = '1'  c="2">text<d/> tail</a ></domain >
<!-- after -->
"""


class SameTest(testtools.TestCase):
    def test_corpus_and_oddities(self):
        for text in [ODD, "\ufeff" + ODD, *map(corpus.text, corpus.names())]:
            self.assertEqual(text, str(markup.parse(text)))

    def test_attributes_are_decoded(self):
        root = markup.parse(ODD).root
        self.assertEqual({"type": 'a">b', "x": "/>"}, root.attrib)

    def test_refused(self):
        refused = 0
        for text, words in HOSTILE:
            if words in ("not UTF-8", "DOCTYPE", "larger than", "more than") or "not well formed" in words:
                error = self.assertRaises(parsing.DomainError, markup.parse, text)
                self.assertIn(words, str(error))
                refused += 1
        self.assertGreater(refused, 10)
        self.assertRaises(parsing.DomainError, markup.parse, SMALL % nested(markup.MAX_DEPTH))


class ChangeTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.document = markup.parse("<r q='1'>\n  <a x='1' y=\"2\"/>\n  <b>t</b>\n</r>\n")
        self.root = self.document.root

    def test_set(self):
        a = tree.child(self.root, "a")
        a.set("y", "<\"'&>")
        a.set("z", "3")
        tree.unset(a, "x")
        tree.unset(a, "w")
        self.assertEqual("<a y='&lt;\"&apos;&amp;&gt;' z='3'/>", str(a))
        self.assertEqual({"y": "<\"'&>", "z": "3"}, markup.parse(str(a)).root.attrib)

    def test_set_is_not_fooled_by_values(self):
        root = markup.parse("""<a t=' x="1"' x="2"/>""").root
        root.set("x", "3")
        self.assertEqual({"t": ' x="1"', "x": "3"}, markup.parse(str(root)).root.attrib)

    def test_append_takes_indentation_and_quotes(self):
        c = tree.add(self.root, "c", {"k": "v"}, tree.child(self.root, "a"))
        tree.add(c, "d", {}).text = "1 < 2"
        expected = "<r q='1'>\n  <a x='1' y=\"2\"/>\n  <c k='v'>\n    <d>1 &lt; 2</d>\n  </c>\n  <b>t</b>\n</r>\n"
        self.assertEqual(expected, str(self.document))

    def test_append_in_xml_without_line_breaks(self):
        document = markup.parse('<r k="1"><a/></r>')
        tree.add(tree.child(document.root, "a"), "b", {"x": "1"})
        self.assertEqual('<r k="1"><a><b x="1"/></a></r>', str(document))

    def test_remove(self):
        self.root.remove(tree.child(self.root, "a"))
        self.root.remove(tree.child(self.root, "b"))
        self.assertEqual("<r q='1'/>\n", str(self.document))

    @hypothesis.given(strategies.text(), strategies.text())
    def test_any_text_that_xml_can_carry_survives(self, value, content):
        document = markup.parse("<r>\n  <a x='1'/>\n</r>")
        a = tree.child(document.root, "a")
        a.set("x", value)
        tree.add(a, "n", {"v": value}).text = content
        text = str(document)
        try:
            again = markup.parse(text)
        except parsing.DomainError:
            return  # control characters and surrogates
        self.assertEqual(value, tree.child(again.root, "a").attrib["x"])
        self.assertEqual(value, tree.child(tree.child(again.root, "a"), "n").attrib["v"])
        self.assertEqual(text, str(again))
