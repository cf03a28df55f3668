<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de" sourcelanguage="en">
    <context>
        <name />
        <message>
            <source>
{used:,} in use now</source>
            <translation>
{used:,} jetzt genutzt</translation>
        </message>
        <message>
            <source>  or  </source>
            <translation>  oder  </translation>
        </message>
        <message>
            <source> (at node {node})</source>
            <translation> (am Knoten {node})</translation>
        </message>
        <message>
            <source> (report)</source>
            <translation> (Bericht)</translation>
        </message>
        <message>
            <source> (run)</source>
            <translation> (Lauf)</translation>
        </message>
        <message>
            <source> and {fields}</source>
            <translation> und {fields}</translation>
        </message>
        <message>
            <source> by {formula}</source>
            <translation> nach {formula}</translation>
        </message>
        <message>
            <source> in {budget}</source>
            <translation> in {budget}</translation>
        </message>
        <message>
            <source> of {nodes}</source>
            <translation> von {nodes}</translation>
        </message>
        <message>
            <source> on {card}</source>
            <translation> auf {card}</translation>
        </message>
        <message>
            <source> on {machine}</source>
            <translation> auf {machine}</translation>
        </message>
        <message>
            <source> · largest replacement {grown}</source>
            <translation> · größter Ersatz {grown}</translation>
        </message>
        <message>
            <source> · {dropped:,} lost to a full buffer</source>
            <translation> · {dropped:,} an vollen Puffer verloren</translation>
        </message>
        <message>
            <source>#</source>
            <translation>#</translation>
        </message>
        <message>
            <source># now</source>
            <translation># jetzt</translation>
        </message>
        <message>
            <source># peak</source>
            <translation># Spitze</translation>
        </message>
        <message>
            <source># total</source>
            <translation># gesamt</translation>
        </message>
        <message>
            <source>% filled</source>
            <translation>% gefüllt</translation>
        </message>
        <message>
            <source>&amp;About VRAMScope</source>
            <translation>Ü&amp;ber VRAMScope</translation>
        </message>
        <message>
            <source>&amp;Batch</source>
            <translation>&amp;Batch</translation>
        </message>
        <message>
            <source>&amp;Cancel</source>
            <translation>A&amp;bbrechen</translation>
        </message>
        <message>
            <source>&amp;Capture</source>
            <translation>&amp;Capture</translation>
        </message>
        <message>
            <source>&amp;Card</source>
            <translation>&amp;Karte</translation>
        </message>
        <message>
            <source>&amp;Clear this list</source>
            <translation>Liste &amp;leeren</translation>
        </message>
        <message>
            <source>&amp;Command palette…</source>
            <translation>&amp;Befehlspalette …</translation>
        </message>
        <message>
            <source>&amp;Compare</source>
            <translation>Ver&amp;gleichen</translation>
        </message>
        <message>
            <source>&amp;Copy verdict as Markdown</source>
            <translation>Urteil als Markdown &amp;kopieren</translation>
        </message>
        <message>
            <source>&amp;Device</source>
            <translation>&amp;Gerät</translation>
        </message>
        <message>
            <source>&amp;Dismiss message</source>
            <translation>Meldung schl&amp;ießen</translation>
        </message>
        <message>
            <source>&amp;Edit</source>
            <translation>&amp;Bearbeiten</translation>
        </message>
        <message>
            <source>&amp;Export report…</source>
            <translation>Bericht e&amp;xportieren …</translation>
        </message>
        <message>
            <source>&amp;File</source>
            <translation>&amp;Datei</translation>
        </message>
        <message>
            <source>&amp;Find node</source>
            <translation>Knoten &amp;finden</translation>
        </message>
        <message>
            <source>&amp;Forget the baseline</source>
            <translation>Grundlage &amp;vergessen</translation>
        </message>
        <message>
            <source>&amp;Grow from</source>
            <translation>&amp;Wächst ab</translation>
        </message>
        <message>
            <source>&amp;Help</source>
            <translation>&amp;Hilfe</translation>
        </message>
        <message>
            <source>&amp;Hops</source>
            <translation>&amp;Schritte</translation>
        </message>
        <message>
            <source>&amp;Keep as baseline</source>
            <translation>Als Grundlage be&amp;halten</translation>
        </message>
        <message>
            <source>&amp;Keyboard shortcuts</source>
            <translation>&amp;Tastenkürzel</translation>
        </message>
        <message>
            <source>&amp;Language</source>
            <translation>&amp;Sprache</translation>
        </message>
        <message>
            <source>&amp;Open model…</source>
            <translation>Modell ö&amp;ffnen …</translation>
        </message>
        <message>
            <source>&amp;Panels</source>
            <translation>&amp;Paneele</translation>
        </message>
        <message>
            <source>&amp;Prefill</source>
            <translation>&amp;Prefill</translation>
        </message>
        <message>
            <source>&amp;Quit</source>
            <translation>&amp;Beenden</translation>
        </message>
        <message>
            <source>&amp;Redo scenario edit</source>
            <translation>Szenario &amp;wiederherstellen</translation>
        </message>
        <message>
            <source>&amp;Replay ×N</source>
            <translation>&amp;Replay ×N</translation>
        </message>
        <message>
            <source>&amp;Reset layout</source>
            <translation>Anordnung &amp;zurücksetzen</translation>
        </message>
        <message>
            <source>&amp;Run</source>
            <translation>&amp;Lauf</translation>
        </message>
        <message>
            <source>&amp;Samples</source>
            <translation>B&amp;eispiele</translation>
        </message>
        <message>
            <source>&amp;Save report…</source>
            <translation>Bericht &amp;speichern …</translation>
        </message>
        <message>
            <source>&amp;Step</source>
            <translation>&amp;Schritt</translation>
        </message>
        <message>
            <source>&amp;Temperature</source>
            <translation>&amp;Temperatur</translation>
        </message>
        <message>
            <source>&amp;Undo scenario edit</source>
            <translation>Szenario &amp;rückgängig</translation>
        </message>
        <message>
            <source>&amp;Verify ×N</source>
            <translation>&amp;Verify ×N</translation>
        </message>
        <message>
            <source>&amp;View</source>
            <translation>&amp;Ansicht</translation>
        </message>
        <message>
            <source>, context {context:,}</source>
            <translation>, Kontext {context:,}</translation>
        </message>
        <message>
            <source>, still short by {headroom}</source>
            <translation>, dann fehlen noch {headroom}</translation>
        </message>
        <message>
            <source>, up to {most}</source>
            <translation>, bis {most}</translation>
        </message>
        <message>
            <source>, with a run</source>
            <translation>, mit einem Lauf</translation>
        </message>
        <message>
            <source>, {nodes} left out</source>
            <translation>, {nodes} ausgelassen</translation>
        </message>
        <message>
            <source>, {nodes} unknown</source>
            <translation>, {nodes} unbekannt</translation>
        </message>
        <message>
            <source>4-bit weights in matrix products</source>
            <translation>4-Bit-Gewichte in Matrixprodukten</translation>
        </message>
        <message>
            <source>4-bit weights with zero points in matrix products</source>
            <translation>4-Bit-Gewichte mit Nullpunkten in Matrixprodukten</translation>
        </message>
        <message>
            <source>4096, 1.5M or 2GiB</source>
            <translation>4096, 1.5M oder 2GiB</translation>
        </message>
        <message>
            <source>; no context fits</source>
            <translation>; kein Kontext passt</translation>
        </message>
        <message>
            <source>; no context fits at this batch</source>
            <translation>; kein Kontext passt bei diesem Batch</translation>
        </message>
        <message>
            <source>; no context fits at this batch, the largest batch that fits is {batch:,}</source>
            <translation>; kein Kontext passt bei diesem Batch, der größte passende Batch ist {batch:,}</translation>
        </message>
        <message>
            <source>; the largest batch that fits is {batch:,}</source>
            <translation>; der größte passende Batch ist {batch:,}</translation>
        </message>
        <message>
            <source>; the largest context that fits is {context:,}</source>
            <translation>; der größte passende Kontext ist {context:,}</translation>
        </message>
        <message>
            <source>&lt;h3&gt;VRAMScope&lt;/h3&gt;&lt;p&gt;Does this ONNX model fit this GPU, what fills it, and what happens when its decode step is captured and replayed.&lt;/p&gt;{devices}</source>
            <translation>&lt;h3&gt;VRAMScope&lt;/h3&gt;&lt;p&gt;Passt dieses ONNX-Modell auf diese GPU, was füllt sie, und was geschieht, wenn der Decode-Schritt aufgezeichnet und wiedergegeben wird.&lt;/p&gt;{devices}</translation>
        </message>
        <message>
            <source>&lt;p&gt;Engine {engine_version}, Python {python}&lt;br&gt;{devices}&lt;/p&gt;</source>
            <translation>&lt;p&gt;Engine {engine_version}, Python {python}&lt;br&gt;{devices}&lt;/p&gt;</translation>
        </message>
        <message>
            <source>A</source>
            <translation>A</translation>
        </message>
        <message>
            <source>A captured graph's bindings appear here: a replay must find them unchanged</source>
            <translation>Die Bindungen eines aufgezeichneten Graphen erscheinen hier: ein Replay muss sie unverändert finden</translation>
        </message>
        <message>
            <source>A component, a layer or a node; the one that differs most comes first</source>
            <translation>Eine Komponente, eine Schicht oder ein Knoten; was am meisten abweicht, steht oben</translation>
        </message>
        <message>
            <source>A frozen mask stays right while decoding</source>
            <translation>Eine eingefrorene Maske bleibt beim Decodieren richtig</translation>
        </message>
        <message>
            <source>A is {side}. Change the scenario, or open another model, to see B.</source>
            <translation>A ist {side}. Für B das Szenario ändern oder ein anderes Modell öffnen.</translation>
        </message>
        <message>
            <source>A machine that ssh reaches without a password, and on which VRAMScope is installed:
HOST, USER@HOST, or HOST:/path/to/vramscope. Empty is this machine.</source>
            <translation>Eine Maschine, die ssh ohne Passwort erreicht und auf der VRAMScope installiert ist:
HOST, USER@HOST oder HOST:/pfad/zu/vramscope. Leer ist diese Maschine.</translation>
        </message>
        <message>
            <source>A prefix of the output is written</source>
            <translation>Nur der Anfang der Ausgabe wird geschrieben</translation>
        </message>
        <message>
            <source>A prompt is prefilled</source>
            <translation>Ein Prompt ist eingelesen</translation>
        </message>
        <message>
            <source>A saved report cannot be planned again: open its model</source>
            <translation>Ein gespeicherter Bericht kann nicht neu geplant werden: dazu sein Modell öffnen</translation>
        </message>
        <message>
            <source>A saved report has no model to run: open its model</source>
            <translation>Ein gespeicherter Bericht hat kein Modell, das laufen könnte: dazu sein Modell öffnen</translation>
        </message>
        <message>
            <source>A total is unknown, and so is the difference</source>
            <translation>Eine Summe ist unbekannt und damit auch die Differenz</translation>
        </message>
        <message>
            <source>A whole capture needs</source>
            <translation>Ein ganzes Capture braucht</translation>
        </message>
        <message>
            <source>About VRAMScope</source>
            <translation>Über VRAMScope</translation>
        </message>
        <message>
            <source>Address</source>
            <translation>Adresse</translation>
        </message>
        <message>
            <source>After a capture: captured, or a seam on the device or the host, with the reason</source>
            <translation>Nach einem Capture: im Graph, oder eine Naht auf dem Gerät oder dem Host, mit dem Grund</translation>
        </message>
        <message>
            <source>Ahead</source>
            <translation>Voraus</translation>
        </message>
        <message>
            <source>All</source>
            <translation>Alles</translation>
        </message>
        <message>
            <source>All allocations ever made</source>
            <translation>Alle Allokationen insgesamt</translation>
        </message>
        <message>
            <source>All bytes ever asked for</source>
            <translation>Alle je angeforderten Bytes</translation>
        </message>
        <message>
            <source>Allocations</source>
            <translation>Allokationen</translation>
        </message>
        <message>
            <source>Allocations held now</source>
            <translation>Jetzt gehaltene Allokationen</translation>
        </message>
        <message>
            <source>Allocations in the last step
{moved}</source>
            <translation>Allokationen im letzten Schritt
{moved}</translation>
        </message>
        <message>
            <source>Allocations made</source>
            <translation>Gemachte Allokationen</translation>
        </message>
        <message>
            <source>An input, an output, a neighbour or a part of the scratch</source>
            <translation>Eine Eingabe, eine Ausgabe, ein Nachbar oder ein Teil des Arbeitspuffers</translation>
        </message>
        <message>
            <source>And</source>
            <translation>Und</translation>
        </message>
        <message>
            <source>Another export of the model: planned here, made by its exporter</source>
            <translation>Ein anderer Export des Modells: hier geplant, gemacht von seinem Exporter</translation>
        </message>
        <message>
            <source>Apply this and plan again</source>
            <translation>Dies anwenden und neu planen</translation>
        </message>
        <message>
            <source>Arena bytes alive while the node runs; of a scope the most</source>
            <translation>Belegte Bytes der Arena, während der Knoten läuft; bei einem Bereich das Höchste</translation>
        </message>
        <message>
            <source>As in a new window</source>
            <translation>Wie in einem neuen Fenster</translation>
        </message>
        <message>
            <source>As its driver says</source>
            <translation>Wie der Treiber meldet</translation>
        </message>
        <message>
            <source>As the &amp;desktop</source>
            <translation>Wie der Schreib&amp;tisch</translation>
        </message>
        <message>
            <source>Assume no other export of the model any more</source>
            <translation>Nimmt keinen anderen Export des Modells mehr an</translation>
        </message>
        <message>
            <source>Assume nothing any more; undo brings it back</source>
            <translation>Nimmt nichts mehr an; Rückgängig holt es zurück</translation>
        </message>
        <message>
            <source>Axes</source>
            <translation>Achsen</translation>
        </message>
        <message>
            <source>B</source>
            <translation>B</translation>
        </message>
        <message>
            <source>B takes as much as A, to the byte</source>
            <translation>B braucht so viel wie A, auf das Byte genau</translation>
        </message>
        <message>
            <source>B takes {size} less than A</source>
            <translation>B braucht {size} weniger als A</translation>
        </message>
        <message>
            <source>B takes {size} more than A</source>
            <translation>B braucht {size} mehr als A</translation>
        </message>
        <message>
            <source>B − A</source>
            <translation>B − A</translation>
        </message>
        <message>
            <source>Back to before the prompt; weights stay loaded</source>
            <translation>Zurück vor den Prompt; die Gewichte bleiben geladen</translation>
        </message>
        <message>
            <source>Back to the whole run</source>
            <translation>Zurück zum ganzen Lauf</translation>
        </message>
        <message>
            <source>Batch</source>
            <translation>Batch</translation>
        </message>
        <message>
            <source>Because of</source>
            <translation>Wegen</translation>
        </message>
        <message>
            <source>Before</source>
            <translation>Vorher</translation>
        </message>
        <message>
            <source>Binding</source>
            <translation>Bindung</translation>
        </message>
        <message>
            <source>Blocks</source>
            <translation>Blöcke</translation>
        </message>
        <message>
            <source>Blocks of the KV cache</source>
            <translation>Blöcke des KV-Cache</translation>
        </message>
        <message>
            <source>Blocks of the KV cache that all sequences share</source>
            <translation>Blöcke des KV-Cache, die sich alle Sequenzen teilen</translation>
        </message>
        <message>
            <source>Bounded axes</source>
            <translation>Begrenzte Achsen</translation>
        </message>
        <message>
            <source>By scope</source>
            <translation>Nach Bereich</translation>
        </message>
        <message>
            <source>Bytes</source>
            <translation>Bytes</translation>
        </message>
        <message>
            <source>Bytes by scope</source>
            <translation>Bytes nach Bereich</translation>
        </message>
        <message>
            <source>Bytes held</source>
            <translation>Gehaltene Bytes</translation>
        </message>
        <message>
            <source>Bytes held now</source>
            <translation>Jetzt gehaltene Bytes</translation>
        </message>
        <message>
            <source>Bytes of every component are counted here once the model runs</source>
            <translation>Die Bytes jeder Komponente werden hier gezählt, sobald das Modell läuft</translation>
        </message>
        <message>
            <source>Bytes of the node's outputs</source>
            <translation>Bytes der Ausgaben des Knotens</translation>
        </message>
        <message>
            <source>Bytes that the governor could still grant to anybody</source>
            <translation>Bytes, die der Verwalter noch vergeben kann</translation>
        </message>
        <message>
            <source>C&amp;hat template</source>
            <translation>C&amp;hat-Vorlage</translation>
        </message>
        <message>
            <source>CSV table (*.csv)</source>
            <translation>CSV-Tabelle (*.csv)</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>Abbrechen</translation>
        </message>
        <message>
            <source>Cannot run here: {detail}</source>
            <translation>Kann hier nicht laufen: {detail}</translation>
        </message>
        <message>
            <source>Capture</source>
            <translation>Capture</translation>
        </message>
        <message>
            <source>Capture the decode step as a device graph</source>
            <translation>Den Decode-Schritt als Geräte-Graph aufzeichnen</translation>
        </message>
        <message>
            <source>Captures</source>
            <translation>Captures</translation>
        </message>
        <message>
            <source>Cards</source>
            <translation>Karten</translation>
        </message>
        <message>
            <source>Cards to compare with</source>
            <translation>Karten zum Vergleich</translation>
        </message>
        <message>
            <source>Cause</source>
            <translation>Ursache</translation>
        </message>
        <message>
            <source>Changes that save memory</source>
            <translation>Änderungen, die Speicher sparen</translation>
        </message>
        <message>
            <source>Checked once a prompt is prefilled</source>
            <translation>Geprüft, sobald ein Prompt eingelesen ist</translation>
        </message>
        <message>
            <source>Choose a card to see where it ends</source>
            <translation>Eine Karte wählen, um ihr Ende zu sehen</translation>
        </message>
        <message>
            <source>Choose a node in the tree to look into it</source>
            <translation>Einen Knoten im Baum wählen, um hineinzusehen</translation>
        </message>
        <message>
            <source>Choose a node in the tree to see who feeds it and who reads it</source>
            <translation>Einen Knoten im Baum wählen, um zu sehen, wer ihn speist und wer ihn liest</translation>
        </message>
        <message>
            <source>Choose columns; drag their headings to move them</source>
            <translation>Spalten wählen; ihre Köpfe lassen sich ziehen</translation>
        </message>
        <message>
            <source>Clear</source>
            <translation>Leeren</translation>
        </message>
        <message>
            <source>Click a scope to widen it, the top bar or Backspace to go back, a node to show it in the tree</source>
            <translation>Klick auf einen Bereich verbreitert ihn, auf den obersten Balken (oder Rücktaste) geht zurück, auf einen Knoten zeigt ihn im Baum</translation>
        </message>
        <message>
            <source>Click to plan without it</source>
            <translation>Ein Klick plant ohne das</translation>
        </message>
        <message>
            <source>Click to set the context; on another batch's line that batch too</source>
            <translation>Klicken setzt den Kontext; auf der Linie eines anderen Batches auch diesen</translation>
        </message>
        <message>
            <source>Close the message about the last failure</source>
            <translation>Die Meldung über den letzten Fehler schließen</translation>
        </message>
        <message>
            <source>Close the window</source>
            <translation>Das Fenster schließen</translation>
        </message>
        <message>
            <source>Close this message</source>
            <translation>Diese Meldung schließen</translation>
        </message>
        <message>
            <source>Columns</source>
            <translation>Spalten</translation>
        </message>
        <message>
            <source>Columns of the node tree</source>
            <translation>Spalten des Knotenbaums</translation>
        </message>
        <message>
            <source>Command</source>
            <translation>Befehl</translation>
        </message>
        <message>
            <source>Command palette</source>
            <translation>Befehlspalette</translation>
        </message>
        <message>
            <source>Commands</source>
            <translation>Befehle</translation>
        </message>
        <message>
            <source>Compare</source>
            <translation>Vergleich</translation>
        </message>
        <message>
            <source>Compare &amp;with…</source>
            <translation>Vergleichen &amp;mit …</translation>
        </message>
        <message>
            <source>Compare N replayed steps with eager ones</source>
            <translation>N wiedergegebene Schritte mit eager gerechneten vergleichen</translation>
        </message>
        <message>
            <source>Compare cards</source>
            <translation>Karten vergleichen</translation>
        </message>
        <message>
            <source>Compare cards ({number})</source>
            <translation>Karten vergleichen ({number})</translation>
        </message>
        <message>
            <source>Compare the plan of another export with that of the file as it is</source>
            <translation>Vergleicht den Plan eines anderen Exports mit dem der Datei, wie sie ist</translation>
        </message>
        <message>
            <source>Compare what was planned with what the run took at its peak</source>
            <translation>Vergleicht den Plan mit dem, was der Lauf in der Spitze brauchte</translation>
        </message>
        <message>
            <source>Compare whatever is planned from now on with this plan</source>
            <translation>Vergleicht alles, was ab jetzt geplant wird, mit diesem Plan</translation>
        </message>
        <message>
            <source>Compare with a model or a report</source>
            <translation>Mit einem Modell oder Bericht vergleichen</translation>
        </message>
        <message>
            <source>Compare with a saved report, or with another model planned in this scenario</source>
            <translation>Mit einem gespeicherten Bericht oder einem anderen Modell in diesem Szenario vergleichen</translation>
        </message>
        <message>
            <source>Compare with its &amp;run</source>
            <translation>Mit dem eigenen &amp;Lauf vergleichen</translation>
        </message>
        <message>
            <source>Compare with nothing any more</source>
            <translation>Mit nichts mehr vergleichen</translation>
        </message>
        <message>
            <source>Compare with the file as it &amp;is</source>
            <translation>M&amp;it der Datei, wie sie ist, vergleichen</translation>
        </message>
        <message>
            <source>Compare with the file as it is</source>
            <translation>Mit der Datei, wie sie ist, vergleichen</translation>
        </message>
        <message>
            <source>Component</source>
            <translation>Komponente</translation>
        </message>
        <message>
            <source>Components against the card</source>
            <translation>Komponenten auf der Karte</translation>
        </message>
        <message>
            <source>Components, layers or nodes</source>
            <translation>Komponenten, Schichten oder Knoten</translation>
        </message>
        <message>
            <source>Compute N tokens eagerly</source>
            <translation>N Token eager rechnen</translation>
        </message>
        <message>
            <source>Compute N tokens eagerly and time every node</source>
            <translation>N Token eager rechnen und jeden Knoten messen</translation>
        </message>
        <message>
            <source>Compute one token eagerly</source>
            <translation>Ein Token eager rechnen</translation>
        </message>
        <message>
            <source>Compute the whole prompt</source>
            <translation>Den ganzen Prompt rechnen</translation>
        </message>
        <message>
            <source>Conte&amp;xt</source>
            <translation>Konte&amp;xt</translation>
        </message>
        <message>
            <source>Context</source>
            <translation>Kontext</translation>
        </message>
        <message>
            <source>Copied the device's graph as dot</source>
            <translation>Den Graphen des Geräts als dot kopiert</translation>
        </message>
        <message>
            <source>Copied the verdict as Markdown</source>
            <translation>Urteil als Markdown kopiert</translation>
        </message>
        <message>
            <source>Copied {rows:,} rows of {title} as Markdown</source>
            <translation>{rows:,} Zeilen aus {title} als Markdown kopiert</translation>
        </message>
        <message>
            <source>Copy captured &amp;graph as dot</source>
            <translation>Aufgezeichneten &amp;Graphen als dot kopieren</translation>
        </message>
        <message>
            <source>Copy details</source>
            <translation>Einzelheiten kopieren</translation>
        </message>
        <message>
            <source>Copy table as &amp;Markdown</source>
            <translation>Tabelle als &amp;Markdown kopieren</translation>
        </message>
        <message>
            <source>Copy the captured graphs as the device drew them, for Graphviz</source>
            <translation>Die aufgezeichneten Graphen kopieren, wie das Gerät sie zeichnet, für Graphviz</translation>
        </message>
        <message>
            <source>Copy the table of the panel in use for an issue or a pull request</source>
            <translation>Die Tabelle des benutzten Paneels kopieren, etwa für ein Issue oder einen Pull Request</translation>
        </message>
        <message>
            <source>Copy the verdict, the components and what would help</source>
            <translation>Urteil, Komponenten und Abhilfen kopieren</translation>
        </message>
        <message>
            <source>Copy the whole message, for a report or a colleague</source>
            <translation>Die ganze Meldung kopieren, für einen Bericht oder einen Kollegen</translation>
        </message>
        <message>
            <source>Declare a maximum for {symbol} to settle it</source>
            <translation>Ein Maximum für {symbol} angeben, um sie zu klären</translation>
        </message>
        <message>
            <source>Declare a maximum for {value}</source>
            <translation>Ein Maximum für {value} angeben</translation>
        </message>
        <message>
            <source>Declines</source>
            <translation>Ablehnungen</translation>
        </message>
        <message>
            <source>Declines ({declines:,})</source>
            <translation>Ablehnungen ({declines:,})</translation>
        </message>
        <message>
            <source>Differences</source>
            <translation>Unterschiede</translation>
        </message>
        <message>
            <source>Dismiss</source>
            <translation>Schließen</translation>
        </message>
        <message>
            <source>Do not assume: {title}</source>
            <translation>Nicht annehmen: {title}</translation>
        </message>
        <message>
            <source>Domain</source>
            <translation>Domäne</translation>
        </message>
        <message>
            <source>Double-click a node, or press Enter on it, to choose it in the tree</source>
            <translation>Doppelklick oder Eingabe auf einem Knoten wählt ihn im Baum</translation>
        </message>
        <message>
            <source>Double-click or press Enter on a neighbour to go there</source>
            <translation>Doppelklick oder Eingabe auf einem Nachbarn führt zu ihm</translation>
        </message>
        <message>
            <source>Double-click or press Enter to show it in the tree</source>
            <translation>Doppelklick oder Eingabe zeigt ihn im Baum</translation>
        </message>
        <message>
            <source>Double-click or press F2 to declare a maximum; empty takes it back</source>
            <translation>Doppelklick oder F2, um ein Maximum anzugeben; leer nimmt es zurück</translation>
        </message>
        <message>
            <source>Draw from so many of the likeliest tokens</source>
            <translation>Aus so vielen der wahrscheinlichsten Token ziehen</translation>
        </message>
        <message>
            <source>Draw from the likeliest tokens that together have these odds</source>
            <translation>Aus den wahrscheinlichsten Token ziehen, die zusammen diese Wahrscheinlichkeit haben</translation>
        </message>
        <message>
            <source>Draw over steps</source>
            <translation>Über die Schritte zeichnen</translation>
        </message>
        <message>
            <source>Draw over time</source>
            <translation>Über die Zeit zeichnen</translation>
        </message>
        <message>
            <source>Draw the lines of other cards too, up to {most}</source>
            <translation>Auch die Linien anderer Karten zeichnen, bis zu {most}</translation>
        </message>
        <message>
            <source>Draw who feeds the chosen node and who reads it</source>
            <translation>Zeichnet, wer den gewählten Knoten speist und wer ihn liest</translation>
        </message>
        <message>
            <source>Eager</source>
            <translation>Eager</translation>
        </message>
        <message>
            <source>Eager text</source>
            <translation>Eager-Text</translation>
        </message>
        <message>
            <source>End the engine process, start another, and open the model again</source>
            <translation>Den Engine-Prozess beenden, einen neuen starten und das Modell wieder öffnen</translation>
        </message>
        <message>
            <source>Engine log</source>
            <translation>Protokoll der Engine</translation>
        </message>
        <message>
            <source>Engine on another &amp;machine…</source>
            <translation>Engine auf an&amp;derer Maschine …</translation>
        </message>
        <message>
            <source>Engine on another machine</source>
            <translation>Engine auf anderer Maschine</translation>
        </message>
        <message>
            <source>Events</source>
            <translation>Ereignisse</translation>
        </message>
        <message>
            <source>Every command with its keys</source>
            <translation>Jeder Befehl mit seinen Tasten</translation>
        </message>
        <message>
            <source>Every kernel can be recorded</source>
            <translation>Alle Kernel aufzeichenbar</translation>
        </message>
        <message>
            <source>Every node warm at its shapes</source>
            <translation>Jeder Knoten ist warm</translation>
        </message>
        <message>
            <source>Everything in view (0); the wheel or + and − zoom</source>
            <translation>Alles im Blick (0); das Mausrad oder + und − vergrößern</translation>
        </message>
        <message>
            <source>Export report</source>
            <translation>Bericht exportieren</translation>
        </message>
        <message>
            <source>Exported anew:</source>
            <translation>Neu exportiert:</translation>
        </message>
        <message>
            <source>F&amp;ull screen</source>
            <translation>V&amp;ollbild</translation>
        </message>
        <message>
            <source>Field</source>
            <translation>Feld</translation>
        </message>
        <message>
            <source>Fill the screen with the window</source>
            <translation>Das Fenster füllt den Bildschirm</translation>
        </message>
        <message>
            <source>Filled once a prompt is prefilled</source>
            <translation>Gefüllt, sobald ein Prompt eingelesen ist</translation>
        </message>
        <message>
            <source>Find any command by a few letters</source>
            <translation>Jeden Befehl mit ein paar Buchstaben finden</translation>
        </message>
        <message>
            <source>Find cards</source>
            <translation>Karten finden</translation>
        </message>
        <message>
            <source>Find nodes</source>
            <translation>Knoten finden</translation>
        </message>
        <message>
            <source>Find nodes: words, op:MatMul, bytes&gt;1M, scope:layers.3</source>
            <translation>Knoten finden: Wörter, op:MatMul, bytes&gt;1M, scope:layers.3</translation>
        </message>
        <message>
            <source>First node</source>
            <translation>Erster Knoten</translation>
        </message>
        <message>
            <source>Fit</source>
            <translation>Einpassen</translation>
        </message>
        <message>
            <source>Fixed strides</source>
            <translation>Feste Schritte</translation>
        </message>
        <message>
            <source>Follow</source>
            <translation>Folgen</translation>
        </message>
        <message>
            <source>Further fields that differed</source>
            <translation>Weitere abweichende Felder</translation>
        </message>
        <message>
            <source>Generated text</source>
            <translation>Erzeugter Text</translation>
        </message>
        <message>
            <source>Generated text appears here</source>
            <translation>Erzeugter Text erscheint hier</translation>
        </message>
        <message>
            <source>Granted by the governor</source>
            <translation>Vom Verwalter vergeben</translation>
        </message>
        <message>
            <source>Graph slot</source>
            <translation>Graph-Platz</translation>
        </message>
        <message>
            <source>Graph slots</source>
            <translation>Graph-Plätze</translation>
        </message>
        <message>
            <source>Graphs</source>
            <translation>Graphen</translation>
        </message>
        <message>
            <source>Graphs that died</source>
            <translation>Verlorene Graphen</translation>
        </message>
        <message>
            <source>Graphs that died on this slot</source>
            <translation>Auf diesem Platz verlorene Graphen</translation>
        </message>
        <message>
            <source>Graphviz drawing (*.dot)</source>
            <translation>Graphviz-Zeichnung (*.dot)</translation>
        </message>
        <message>
            <source>Group nodes by scope, or list them in the order in which they run</source>
            <translation>Knoten nach Bereich gruppieren, oder in der Reihenfolge ihres Laufs auflisten</translation>
        </message>
        <message>
            <source>Grow the KV cache</source>
            <translation>KV-Cache wachsen lassen</translation>
        </message>
        <message>
            <source>HTML report (*.html);;CSV table of nodes (*.csv);;Markdown summary (*.md);;VRAMScope report (*.vramscope.json);;Netron attachment (*.netron.json);;Model Explorer node data (*.explorer.json)</source>
            <translation>HTML-Bericht (*.html);;CSV-Tabelle der Knoten (*.csv);;Markdown-Zusammenfassung (*.md);;VRAMScope-Bericht (*.vramscope.json);;Netron-Beilage (*.netron.json);;Model-Explorer-Knotendaten (*.explorer.json)</translation>
        </message>
        <message>
            <source>Headroom</source>
            <translation>Spielraum</translation>
        </message>
        <message>
            <source>Headroom over context</source>
            <translation>Spielraum über dem Kontext</translation>
        </message>
        <message>
            <source>History of memory slots</source>
            <translation>Geschichte der Speicherplätze</translation>
        </message>
        <message>
            <source>Hops</source>
            <translation>Schritte</translation>
        </message>
        <message>
            <source>How even the odds are. 0 is greedy: always the likeliest token</source>
            <translation>Wie gleichmäßig die Chancen sind. 0 ist greedy: immer das wahrscheinlichste Token</translation>
        </message>
        <message>
            <source>How far from the chosen node</source>
            <translation>Wie weit vom gewählten Knoten</translation>
        </message>
        <message>
            <source>How many steps Steps ×N, Replay ×N and Verify ×N make</source>
            <translation>Wie viele Schritte „Schritte ×N“, „Replay ×N“ und „Verify ×N“ machen</translation>
        </message>
        <message>
            <source>How many values have this dimension</source>
            <translation>Wie viele Werte diese Dimension haben</translation>
        </message>
        <message>
            <source>How the output bytes are known: exact, bound or unknown</source>
            <translation>Wie die Bytes der Ausgaben bekannt sind: exakt, Schranke oder unbekannt</translation>
        </message>
        <message>
            <source>How to export it so: {how}</source>
            <translation>So wird es exportiert: {how}</translation>
        </message>
        <message>
            <source>If exported so: {sentence}</source>
            <translation>So exportiert: {sentence}</translation>
        </message>
        <message>
            <source>In the order in which it happened</source>
            <translation>In der Reihenfolge des Geschehens</translation>
        </message>
        <message>
            <source>In use</source>
            <translation>Genutzt</translation>
        </message>
        <message>
            <source>Input shapes</source>
            <translation>Eingabeformen</translation>
        </message>
        <message>
            <source>Intervals of the axes</source>
            <translation>Intervalle der Achsen</translation>
        </message>
        <message>
            <source>Invalidated</source>
            <translation>Ungültig</translation>
        </message>
        <message>
            <source>Is</source>
            <translation>Ist</translation>
        </message>
        <message>
            <source>Is input</source>
            <translation>Ist Eingabe</translation>
        </message>
        <message>
            <source>It fits when exported anew:</source>
            <translation>Neu exportiert passt es:</translation>
        </message>
        <message>
            <source>Its length may move under fixed strides</source>
            <translation>Ihre Länge darf sich bei festen Schritten ändern</translation>
        </message>
        <message>
            <source>Its weights are not here: it can be planned, not run</source>
            <translation>Die Gewichte sind nicht hier: planbar, aber nicht lauffähig</translation>
        </message>
        <message>
            <source>KV cache</source>
            <translation>KV-Cache</translation>
        </message>
        <message>
            <source>KV cache in 4 bits</source>
            <translation>KV-Cache in 4 Bit</translation>
        </message>
        <message>
            <source>KV cache in 8 bits</source>
            <translation>KV-Cache in 8 Bit</translation>
        </message>
        <message>
            <source>KV fill</source>
            <translation>KV-Füllung</translation>
        </message>
        <message>
            <source>Keep only the last position's logits</source>
            <translation>Nur die Logits der letzten Position behalten</translation>
        </message>
        <message>
            <source>Keep the KV cache in 4 bits</source>
            <translation>Den KV-Cache in 4 Bit halten</translation>
        </message>
        <message>
            <source>Keep the KV cache in 8 bits</source>
            <translation>Den KV-Cache in 8 Bit halten</translation>
        </message>
        <message>
            <source>Keep the newest in view; moving the charts by mouse lets go</source>
            <translation>Das Neueste im Blick behalten; ein Ziehen mit der Maus lässt los</translation>
        </message>
        <message>
            <source>Keep the plan of the file as it is as the baseline, and show what differs</source>
            <translation>Behält den Plan der Datei, wie sie ist, als Grundlage und zeigt, was anders ist</translation>
        </message>
        <message>
            <source>Keep this plan as the baseline (Ctrl+B), then change the scenario or open another model or report: what differs is shown here. Or compare with a model or a report that is not open, or with the run.</source>
            <translation>Diesen Plan als Grundlage behalten (Strg+B), dann das Szenario ändern oder ein anderes Modell oder einen Bericht öffnen: hier steht, was sich unterscheidet. Oder mit einem Modell oder Bericht vergleichen, der nicht offen ist, oder mit dem Lauf.</translation>
        </message>
        <message>
            <source>Keep what runs from now on, step by step and node by node, to save it as a trace</source>
            <translation>Behält von jetzt an, was läuft, Schritt für Schritt und Knoten für Knoten, um es als Ablauf zu speichern</translation>
        </message>
        <message>
            <source>Kernel</source>
            <translation>Kernel</translation>
        </message>
        <message>
            <source>Kernel sees</source>
            <translation>Kernel sieht</translation>
        </message>
        <message>
            <source>Kernels see the valid prefix only</source>
            <translation>Kernel sehen nur den gültigen Anfang</translation>
        </message>
        <message>
            <source>Keyboard shortcuts</source>
            <translation>Tastenkürzel</translation>
        </message>
        <message>
            <source>Keys</source>
            <translation>Tasten</translation>
        </message>
        <message>
            <source>Kind</source>
            <translation>Art</translation>
        </message>
        <message>
            <source>Kind of event</source>
            <translation>Art des Ereignisses</translation>
        </message>
        <message>
            <source>Known as</source>
            <translation>Kenntnis</translation>
        </message>
        <message>
            <source>Last cause</source>
            <translation>Letzte Ursache</translation>
        </message>
        <message>
            <source>Launch</source>
            <translation>Start</translation>
        </message>
        <message>
            <source>Launches of one replay: the captured segments</source>
            <translation>Starts eines Replays: die aufgezeichneten Abschnitte</translation>
        </message>
        <message>
            <source>Light or &amp;dark</source>
            <translation>&amp;Hell oder dunkel</translation>
        </message>
        <message>
            <source>Live</source>
            <translation>Live</translation>
        </message>
        <message>
            <source>Log</source>
            <translation>Protokoll</translation>
        </message>
        <message>
            <source>Logit difference</source>
            <translation>Logit-Differenz</translation>
        </message>
        <message>
            <source>Lost graphs</source>
            <translation>Verlorene Graphen</translation>
        </message>
        <message>
            <source>Lost graphs ({lost:,})</source>
            <translation>Verlorene Graphen ({lost:,})</translation>
        </message>
        <message>
            <source>Low</source>
            <translation>Min.</translation>
        </message>
        <message>
            <source>Lower chart</source>
            <translation>Unteres Diagramm</translation>
        </message>
        <message>
            <source>Lower the batch to {value:,}</source>
            <translation>Batch auf {value:,} senken</translation>
        </message>
        <message>
            <source>Lower the context to {value:,}</source>
            <translation>Kontext auf {value:,} senken</translation>
        </message>
        <message>
            <source>Make the change again that was taken back</source>
            <translation>Die zurückgenommene Änderung wieder anwenden</translation>
        </message>
        <message>
            <source>Mask safe</source>
            <translation>Maske sicher</translation>
        </message>
        <message>
            <source>Maximum</source>
            <translation>Maximum</translation>
        </message>
        <message>
            <source>Mean time of a node's launch over the profiled steps; of a scope all together</source>
            <translation>Mittlere Zeit des Starts eines Knotens über die gemessenen Schritte; bei einem Bereich alle zusammen</translation>
        </message>
        <message>
            <source>Memory map</source>
            <translation>Speicherkarte</translation>
        </message>
        <message>
            <source>Memory map of the activation arena</source>
            <translation>Speicherkarte der Aktivierungs-Arena</translation>
        </message>
        <message>
            <source>Menu</source>
            <translation>Menü</translation>
        </message>
        <message>
            <source>Models and reports (*.onnx *.vramscope.json);;Every file (*)</source>
            <translation>Modelle und Berichte (*.onnx *.vramscope.json);;Alle Dateien (*)</translation>
        </message>
        <message>
            <source>Move over a block to see its value; click to show its node; wheel and drag to look closer</source>
            <translation>Über einem Block steht sein Wert; ein Klick zeigt seinen Knoten; Rad und Ziehen vergrößern</translation>
        </message>
        <message>
            <source>Name</source>
            <translation>Name</translation>
        </message>
        <message>
            <source>Neighbourhood of the chosen node</source>
            <translation>Nachbarschaft des gewählten Knotens</translation>
        </message>
        <message>
            <source>Neighbours</source>
            <translation>Nachbarn</translation>
        </message>
        <message>
            <source>No card</source>
            <translation>Keine Karte</translation>
        </message>
        <message>
            <source>No control flow, no sequences</source>
            <translation>Keine Verzweigung, Sequenz</translation>
        </message>
        <message>
            <source>No graph has died</source>
            <translation>Kein Graph ging verloren</translation>
        </message>
        <message>
            <source>No map: where values lie is known once every axis has a maximum</source>
            <translation>Keine Karte: wo Werte liegen, steht fest, sobald jede Achse ein Maximum hat</translation>
        </message>
        <message>
            <source>No model is open</source>
            <translation>Kein Modell ist offen</translation>
        </message>
        <message>
            <source>No node is like that</source>
            <translation>Kein Knoten ist so</translation>
        </message>
        <message>
            <source>No problems, and nothing to note</source>
            <translation>Keine Probleme und nichts anzumerken</translation>
        </message>
        <message>
            <source>No recording failed before</source>
            <translation>Nichts misslang zuvor</translation>
        </message>
        <message>
            <source>No shape depends on data</source>
            <translation>Keine Form aus Daten</translation>
        </message>
        <message>
            <source>No shape grows by the step</source>
            <translation>Keine wachsende Form</translation>
        </message>
        <message>
            <source>No value of this phase needs memory in the arena</source>
            <translation>Kein Wert dieser Phase braucht Speicher in der Arena</translation>
        </message>
        <message>
            <source>Node</source>
            <translation>Knoten</translation>
        </message>
        <message>
            <source>Node's nei&amp;ghbours</source>
            <translation>&amp;Nachbarn des Knotens</translation>
        </message>
        <message>
            <source>Nodes</source>
            <translation>Knoten</translation>
        </message>
        <message>
            <source>Nodes of the model inside the captured graphs</source>
            <translation>Knoten des Modells in den aufgezeichneten Graphen</translation>
        </message>
        <message>
            <source>Nodes that a capture has to leave out appear here, each with its reason</source>
            <translation>Knoten, die ein Capture auslassen muss, erscheinen hier mit ihrem Grund</translation>
        </message>
        <message>
            <source>Not possible just now</source>
            <translation>Gerade nicht möglich</translation>
        </message>
        <message>
            <source>Nothing ran yet</source>
            <translation>Noch lief nichts</translation>
        </message>
        <message>
            <source>Nothing was captured yet</source>
            <translation>Noch wurde nichts aufgezeichnet</translation>
        </message>
        <message>
            <source>Now</source>
            <translation>Jetzt</translation>
        </message>
        <message>
            <source>Number and size of the launch that several nodes became; — for one by itself</source>
            <translation>Nummer und Größe des Starts, zu dem mehrere Knoten wurden; — für einen allein</translation>
        </message>
        <message>
            <source>Number of steps</source>
            <translation>Anzahl der Schritte</translation>
        </message>
        <message>
            <source>Of an axis that grows with the text: the tokens there are now</source>
            <translation>Bei einer Achse, die mit dem Text wächst: die Token, die jetzt da sind</translation>
        </message>
        <message>
            <source>One launch does these nodes:</source>
            <translation>Ein Start führt diese Knoten aus:</translation>
        </message>
        <message>
            <source>Open &amp;recent</source>
            <translation>Zuletzt ge&amp;öffnet</translation>
        </message>
        <message>
            <source>Open a .onnx file or a model folder, drop one here, or choose a sample</source>
            <translation>Eine .onnx-Datei oder einen Modellordner öffnen, hierher ziehen, oder ein Beispiel wählen</translation>
        </message>
        <message>
            <source>Open a .onnx file, or a saved report</source>
            <translation>Eine .onnx-Datei oder einen gespeicherten Bericht öffnen</translation>
        </message>
        <message>
            <source>Open a bundled sample</source>
            <translation>Ein mitgeliefertes Beispiel öffnen</translation>
        </message>
        <message>
            <source>Open a model folder with its tokenizer and configuration</source>
            <translation>Einen Modellordner mit Tokenizer und Konfiguration öffnen</translation>
        </message>
        <message>
            <source>Open its model</source>
            <translation>Sein Modell öffnen</translation>
        </message>
        <message>
            <source>Open model &amp;folder…</source>
            <translation>Modell&amp;ordner öffnen …</translation>
        </message>
        <message>
            <source>Open model folder</source>
            <translation>Modellordner öffnen</translation>
        </message>
        <message>
            <source>Open model or report</source>
            <translation>Modell oder Bericht öffnen</translation>
        </message>
        <message>
            <source>Open the model and plan it again</source>
            <translation>Das Modell öffnen und neu planen</translation>
        </message>
        <message>
            <source>Operator</source>
            <translation>Operator</translation>
        </message>
        <message>
            <source>Operators whose recording failed; they run eagerly</source>
            <translation>Operatoren, deren Aufzeichnung misslang; sie laufen eager</translation>
        </message>
        <message>
            <source>Output</source>
            <translation>Ausgabe</translation>
        </message>
        <message>
            <source>Output shapes</source>
            <translation>Ausgabeformen</translation>
        </message>
        <message>
            <source>Output shapes; both where they differ</source>
            <translation>Ausgabeformen; beide, wo sie abweichen</translation>
        </message>
        <message>
            <source>Outputs</source>
            <translation>Ausgaben</translation>
        </message>
        <message>
            <source>Overview</source>
            <translation>Übersicht</translation>
        </message>
        <message>
            <source>PNG picture (*.png);;SVG drawing (*.svg)</source>
            <translation>PNG-Bild (*.png);;SVG-Zeichnung (*.svg)</translation>
        </message>
        <message>
            <source>Pages of the capture panel</source>
            <translation>Seiten des Capture-Paneels</translation>
        </message>
        <message>
            <source>Part written</source>
            <translation>Teilweise</translation>
        </message>
        <message>
            <source>Path</source>
            <translation>Weg</translation>
        </message>
        <message>
            <source>Path on {machine}:</source>
            <translation>Pfad auf {machine}:</translation>
        </message>
        <message>
            <source>Pause</source>
            <translation>Pause</translation>
        </message>
        <message>
            <source>Peak</source>
            <translation>Spitze</translation>
        </message>
        <message>
            <source>Phase</source>
            <translation>Phase</translation>
        </message>
        <message>
            <source>Phase of the memory map</source>
            <translation>Phase der Speicherkarte</translation>
        </message>
        <message>
            <source>Physical shape</source>
            <translation>Physische Form</translation>
        </message>
        <message>
            <source>Plan as if it were exported so</source>
            <translation>Planen, als wäre es so exportiert</translation>
        </message>
        <message>
            <source>Plan the file &amp;as it is</source>
            <translation>Die D&amp;atei planen, wie sie ist</translation>
        </message>
        <message>
            <source>Plan the file as it is</source>
            <translation>Die Datei planen, wie sie ist</translation>
        </message>
        <message>
            <source>Plan without its weights</source>
            <translation>Ohne Gewichte planen</translation>
        </message>
        <message>
            <source>Planned as if exported otherwise: {titles}</source>
            <translation>Geplant, als wäre es anders exportiert: {titles}</translation>
        </message>
        <message>
            <source>Planned as if:</source>
            <translation>Geplant als ob:</translation>
        </message>
        <message>
            <source>Planned is {scratch}; choose another device to run it</source>
            <translation>Geplant ist {scratch}; zum Laufen ein anderes Gerät wählen</translation>
        </message>
        <message>
            <source>Planned scratch; of a scope the largest</source>
            <translation>Geplanter Arbeitspuffer; bei einem Bereich der größte</translation>
        </message>
        <message>
            <source>Planned shape</source>
            <translation>Geplante Form</translation>
        </message>
        <message>
            <source>Plans {scratch}</source>
            <translation>Plant {scratch}</translation>
        </message>
        <message>
            <source>Position in the KV cache</source>
            <translation>Position im KV-Cache</translation>
        </message>
        <message>
            <source>Preconditions of a capture</source>
            <translation>Voraussetzungen eines Captures</translation>
        </message>
        <message>
            <source>Prefill computes the prompt, decode one token at a time</source>
            <translation>Prefill rechnet den Prompt, Decode Token für Token</translation>
        </message>
        <message>
            <source>Prefill in passes of at most 256 tokens</source>
            <translation>Prefill in Durchgängen von höchstens 256 Token</translation>
        </message>
        <message>
            <source>Primary: decode one token; Verify: check a draft of several</source>
            <translation>Primary: ein Token decodieren; Verify: einen Entwurf von mehreren prüfen</translation>
        </message>
        <message>
            <source>Pro&amp;file ×N</source>
            <translation>Pro&amp;fil ×N</translation>
        </message>
        <message>
            <source>Problem</source>
            <translation>Problem</translation>
        </message>
        <message>
            <source>Problems</source>
            <translation>Probleme</translation>
        </message>
        <message>
            <source>Problems ({rows})</source>
            <translation>Probleme ({rows})</translation>
        </message>
        <message>
            <source>Progress</source>
            <translation>Fortschritt</translation>
        </message>
        <message>
            <source>Prom&amp;pt</source>
            <translation>Prom&amp;pt</translation>
        </message>
        <message>
            <source>Prompt</source>
            <translation>Prompt</translation>
        </message>
        <message>
            <source>Prompt and generated tokens together</source>
            <translation>Prompt und erzeugte Token zusammen</translation>
        </message>
        <message>
            <source>Put every panel back where it was</source>
            <translation>Jedes Paneel zurück an seinen Platz</translation>
        </message>
        <message>
            <source>Quarantined</source>
            <translation>In Quarantäne</translation>
        </message>
        <message>
            <source>Read-only: no model is open behind it. It was planned from {path}</source>
            <translation>Nur lesbar: dahinter ist kein Modell offen. Geplant wurde er aus {path}</translation>
        </message>
        <message>
            <source>Reason</source>
            <translation>Grund</translation>
        </message>
        <message>
            <source>Recor&amp;d a trace</source>
            <translation>&amp;Ablauf aufzeichnen</translation>
        </message>
        <message>
            <source>Replay beside eager</source>
            <translation>Replay neben Eager</translation>
        </message>
        <message>
            <source>Replay the captured step N times</source>
            <translation>Den aufgezeichneten Schritt N-mal wiedergeben</translation>
        </message>
        <message>
            <source>Replayed</source>
            <translation>Replay</translation>
        </message>
        <message>
            <source>Replayed text</source>
            <translation>Replay-Text</translation>
        </message>
        <message>
            <source>Replays</source>
            <translation>Replays</translation>
        </message>
        <message>
            <source>Rese&amp;t</source>
            <translation>&amp;Zurücksetzen</translation>
        </message>
        <message>
            <source>Reserved ahead: bytes of the KV cache that no token fills yet</source>
            <translation>Voraus reserviert: Bytes des KV-Caches, die noch kein Token füllt</translation>
        </message>
        <message>
            <source>Restart &amp;engine</source>
            <translation>&amp;Engine neu starten</translation>
        </message>
        <message>
            <source>Restart engine</source>
            <translation>Engine neu starten</translation>
        </message>
        <message>
            <source>Room for one more token</source>
            <translation>Platz für ein Token mehr</translation>
        </message>
        <message>
            <source>Run</source>
            <translation>Lauf</translation>
        </message>
        <message>
            <source>Run &amp;once</source>
            <translation>Ein&amp;mal laufen</translation>
        </message>
        <message>
            <source>Run a model that is no decoder on seeded random inputs</source>
            <translation>Ein Modell, das kein Decoder ist, auf gesäten Zufallseingaben laufen lassen</translation>
        </message>
        <message>
            <source>Run the engine where the GPU is, through ssh</source>
            <translation>Die Engine dort laufen lassen, wo die GPU ist, über ssh</translation>
        </message>
        <message>
            <source>S&amp;ave trace…</source>
            <translation>Ab&amp;lauf speichern…</translation>
        </message>
        <message>
            <source>Samples</source>
            <translation>Beispiele</translation>
        </message>
        <message>
            <source>Save &amp;table as CSV…</source>
            <translation>&amp;Tabelle als CSV speichern …</translation>
        </message>
        <message>
            <source>Save captured &amp;graph as dot…</source>
            <translation>Aufgezeichneten &amp;Graphen als dot speichern…</translation>
        </message>
        <message>
            <source>Save graph</source>
            <translation>Graph speichern</translation>
        </message>
        <message>
            <source>Save panel</source>
            <translation>Paneel speichern</translation>
        </message>
        <message>
            <source>Save panel as &amp;picture…</source>
            <translation>&amp;Paneel als Bild speichern …</translation>
        </message>
        <message>
            <source>Save report</source>
            <translation>Bericht speichern</translation>
        </message>
        <message>
            <source>Save table</source>
            <translation>Tabelle speichern</translation>
        </message>
        <message>
            <source>Save the captured graphs as the device drew them, for Graphviz</source>
            <translation>Die aufgezeichneten Graphen speichern, wie das Gerät sie zeichnet, für Graphviz</translation>
        </message>
        <message>
            <source>Save the panel in use, with its chart, as PNG or SVG</source>
            <translation>Das benutzte Paneel mit seinem Diagramm als PNG oder SVG speichern</translation>
        </message>
        <message>
            <source>Save the plan and what the run took as .vramscope.json, to open and compare later</source>
            <translation>Den Plan und den Bedarf des Laufs als .vramscope.json speichern, um ihn später zu öffnen und zu vergleichen</translation>
        </message>
        <message>
            <source>Save the table of the panel in use as it is shown, with every byte</source>
            <translation>Die Tabelle des benutzten Paneels speichern, wie sie gezeigt wird, mit jedem Byte</translation>
        </message>
        <message>
            <source>Save trace</source>
            <translation>Ablauf speichern</translation>
        </message>
        <message>
            <source>Save what was recorded, for ui.perfetto.dev or chrome://tracing</source>
            <translation>Speichert, was aufgezeichnet wurde, für ui.perfetto.dev oder chrome://tracing</translation>
        </message>
        <message>
            <source>Saved report{run}: {report}</source>
            <translation>Gespeicherter Bericht{run}: {report}</translation>
        </message>
        <message>
            <source>Saved {path}</source>
            <translation>{path} gespeichert</translation>
        </message>
        <message>
            <source>Scenario</source>
            <translation>Szenario</translation>
        </message>
        <message>
            <source>Scopes</source>
            <translation>Bereiche</translation>
        </message>
        <message>
            <source>Scopes and nodes in the order in which they run</source>
            <translation>Bereiche und Knoten in der Reihenfolge ihres Laufs</translation>
        </message>
        <message>
            <source>Seam</source>
            <translation>Naht</translation>
        </message>
        <message>
            <source>Search the node tree</source>
            <translation>Den Knotenbaum durchsuchen</translation>
        </message>
        <message>
            <source>Seconds</source>
            <translation>Sekunden</translation>
        </message>
        <message>
            <source>See&amp;d</source>
            <translation>See&amp;d</translation>
        </message>
        <message>
            <source>Segments of the captured program</source>
            <translation>Abschnitte des aufgezeichneten Programms</translation>
        </message>
        <message>
            <source>Sequences decoded together</source>
            <translation>Gemeinsam decodierte Sequenzen</translation>
        </message>
        <message>
            <source>Shape in the model</source>
            <translation>Form im Modell</translation>
        </message>
        <message>
            <source>Shapes</source>
            <translation>Formen</translation>
        </message>
        <message>
            <source>Shapes of the inputs; ≤ before a bounded extent</source>
            <translation>Formen der Eingaben; ≤ vor einer Schranke</translation>
        </message>
        <message>
            <source>Shapes of the outputs; ≤ before a bounded extent</source>
            <translation>Formen der Ausgaben; ≤ vor einer Schranke</translation>
        </message>
        <message>
            <source>Share of peak</source>
            <translation>Anteil der Spitze</translation>
        </message>
        <message>
            <source>Share past and present in one buffer</source>
            <translation>Past und Present in einen Puffer legen</translation>
        </message>
        <message>
            <source>Show node</source>
            <translation>Knoten zeigen</translation>
        </message>
        <message>
            <source>Show the node in the tree</source>
            <translation>Den Knoten im Baum zeigen</translation>
        </message>
        <message>
            <source>Show the whole neighbourhood</source>
            <translation>Die ganze Nachbarschaft zeigen</translation>
        </message>
        <message>
            <source>Shows length</source>
            <translation>Zeigt Länge</translation>
        </message>
        <message>
            <source>Signature</source>
            <translation>Signatur</translation>
        </message>
        <message>
            <source>Signature of the graph</source>
            <translation>Signatur des Graphen</translation>
        </message>
        <message>
            <source>Since the engine started</source>
            <translation>Seit dem Start der Engine</translation>
        </message>
        <message>
            <source>Slot</source>
            <translation>Platz</translation>
        </message>
        <message>
            <source>Smallest KV cache</source>
            <translation>Kleinster KV-Cache</translation>
        </message>
        <message>
            <source>Smallest to largest, mean</source>
            <translation>Kleinster bis größter, Mittel</translation>
        </message>
        <message>
            <source>Source</source>
            <translation>Quelle</translation>
        </message>
        <message>
            <source>Start the engine again</source>
            <translation>Die Engine wieder starten</translation>
        </message>
        <message>
            <source>Start with a small KV cache and double it when it is full, instead of all the context at once;
a captured graph dies whenever the cache moves</source>
            <translation>Mit einem kleinen KV-Cache beginnen und ihn verdoppeln, wenn er voll ist, statt gleich den ganzen Kontext
zu belegen; ein aufgezeichneter Graph geht verloren, wenn der Cache umzieht</translation>
        </message>
        <message>
            <source>State</source>
            <translation>Zustand</translation>
        </message>
        <message>
            <source>Step</source>
            <translation>Schritt</translation>
        </message>
        <message>
            <source>Step latency</source>
            <translation>Schrittdauer</translation>
        </message>
        <message>
            <source>Steps ×&amp;N</source>
            <translation>Schritte ×&amp;N</translation>
        </message>
        <message>
            <source>Stop drawing; what comes meanwhile is kept</source>
            <translation>Nicht mehr zeichnen; was indes kommt, bleibt erhalten</translation>
        </message>
        <message>
            <source>Stop what runs</source>
            <translation>Anhalten, was läuft</translation>
        </message>
        <message>
            <source>Store equal weights once</source>
            <translation>Gleiche Gewichte einmal speichern</translation>
        </message>
        <message>
            <source>Subject</source>
            <translation>Gegenstand</translation>
        </message>
        <message>
            <source>Switch between the light and the dark theme</source>
            <translation>Zwischen hellem und dunklem Aussehen wechseln</translation>
        </message>
        <message>
            <source>Symbol</source>
            <translation>Symbol</translation>
        </message>
        <message>
            <source>Take back the last change of the scenario</source>
            <translation>Die letzte Änderung des Szenarios zurücknehmen</translation>
        </message>
        <message>
            <source>The ONNX operator</source>
            <translation>Der ONNX-Operator</translation>
        </message>
        <message>
            <source>The baseline</source>
            <translation>Die Grundlage</translation>
        </message>
        <message>
            <source>The blocks of the activation arena appear here once the model is planned</source>
            <translation>Die Blöcke der Aktivierungs-Arena erscheinen hier, sobald das Modell geplant ist</translation>
        </message>
        <message>
            <source>The bytes of scopes appear here once the model is planned</source>
            <translation>Die Bytes der Bereiche erscheinen hier, sobald das Modell geplant ist</translation>
        </message>
        <message>
            <source>The capture's device draws no graph: CUDA does</source>
            <translation>Das Gerät dieses Capture zeichnet keinen Graphen; CUDA tut es</translation>
        </message>
        <message>
            <source>The chart of a decoder's memory over its context appears here once it is planned</source>
            <translation>Das Diagramm des Speichers über dem Kontext erscheint hier, sobald ein Decoder geplant ist</translation>
        </message>
        <message>
            <source>The decode step</source>
            <translation>Der Decode-Schritt</translation>
        </message>
        <message>
            <source>The engine stopped ({reason}) {what}</source>
            <translation>Die Engine ist beendet ({reason}), {what}</translation>
        </message>
        <message>
            <source>The engine wrote nothing</source>
            <translation>Die Engine hat nichts geschrieben</translation>
        </message>
        <message>
            <source>The file as it is takes {size}</source>
            <translation>Die Datei, wie sie ist, braucht {size}</translation>
        </message>
        <message>
            <source>The file is not exported as it is planned: plan the file as it is to run it</source>
            <translation>Die Datei ist nicht so exportiert, wie geplant ist: sie läuft, wenn sie geplant wird, wie sie ist</translation>
        </message>
        <message>
            <source>The first binding that differed</source>
            <translation>Die erste abweichende Bindung</translation>
        </message>
        <message>
            <source>The largest extent; double-click or press F2 to declare one</source>
            <translation>Das größte Ausmaß; Doppelklick oder F2, um eines anzugeben</translation>
        </message>
        <message>
            <source>The largest over the vocabulary and all sequences</source>
            <translation>Das Größte über Vokabular und alle Sequenzen</translation>
        </message>
        <message>
            <source>The model's folder has no chat template</source>
            <translation>Der Modellordner hat keine Chat-Vorlage</translation>
        </message>
        <message>
            <source>The model's nodes appear here once it is planned</source>
            <translation>Die Knoten des Modells erscheinen hier, sobald es geplant ist</translation>
        </message>
        <message>
            <source>The most allocations at once</source>
            <translation>Die meisten Allokationen zugleich</translation>
        </message>
        <message>
            <source>The most at once</source>
            <translation>Das meiste zugleich</translation>
        </message>
        <message>
            <source>The most bytes held at once</source>
            <translation>Die meisten Bytes zugleich</translation>
        </message>
        <message>
            <source>The name of the dimension in the model</source>
            <translation>Der Name der Dimension im Modell</translation>
        </message>
        <message>
            <source>The number of the event</source>
            <translation>Die Nummer des Ereignisses</translation>
        </message>
        <message>
            <source>The operator's domain; empty for ONNX's own</source>
            <translation>Die Domäne des Operators; leer für die von ONNX</translation>
        </message>
        <message>
            <source>The position at which the graph died</source>
            <translation>Die Position, an der der Graph verloren ging</translation>
        </message>
        <message>
            <source>The prefix that is written</source>
            <translation>Der geschriebene Anfang</translation>
        </message>
        <message>
            <source>The same seed draws the same tokens again</source>
            <translation>Derselbe Seed zieht dieselben Token wieder</translation>
        </message>
        <message>
            <source>The scenario or the model fixes this maximum</source>
            <translation>Das Szenario oder das Modell legt dieses Maximum fest</translation>
        </message>
        <message>
            <source>The session's own allocations; below them what lies around them</source>
            <translation>Die eigenen Allokationen der Sitzung; darunter, was um sie liegt</translation>
        </message>
        <message>
            <source>The shape that is allocated</source>
            <translation>Die angelegte Form</translation>
        </message>
        <message>
            <source>The shape that kernels read</source>
            <translation>Die Form, die Kernel lesen</translation>
        </message>
        <message>
            <source>The smallest extent</source>
            <translation>Das kleinste Ausmaß</translation>
        </message>
        <message>
            <source>The symbols in the model's shapes, and what bounds each</source>
            <translation>Die Symbole in den Formen des Modells, und was jedes begrenzt</translation>
        </message>
        <message>
            <source>The window speaks another language once it is opened again</source>
            <translation>Das Fenster spricht eine andere Sprache, sobald es wieder geöffnet wird</translation>
        </message>
        <message>
            <source>There is no {key} to compare; use one of {known}</source>
            <translation>{key} lässt sich nicht vergleichen; möglich sind {known}</translation>
        </message>
        <message>
            <source>There is no {key}:; use one of {known}</source>
            <translation>{key}: gibt es nicht; möglich sind {known}</translation>
        </message>
        <message>
            <source>This model is no decoder: it runs once, on seeded random inputs of the planned shapes.</source>
            <translation>Dieses Modell ist kein Decoder: es läuft einmal, auf gesäten Zufallseingaben der geplanten Formen.</translation>
        </message>
        <message>
            <source>Time</source>
            <translation>Zeit</translation>
        </message>
        <message>
            <source>Token ids separated by spaces: this model has no tokenizer</source>
            <translation>Token-IDs, durch Leerzeichen getrennt: dieses Modell hat keinen Tokenizer</translation>
        </message>
        <message>
            <source>Token of sequence 0</source>
            <translation>Token der Sequenz 0</translation>
        </message>
        <message>
            <source>Tokens of a block</source>
            <translation>Token eines Blocks</translation>
        </message>
        <message>
            <source>Tokens of a pass over the prompt</source>
            <translation>Token eines Durchgangs durch den Prompt</translation>
        </message>
        <message>
            <source>Tokens of one block of the KV cache</source>
            <translation>Token eines Blocks des KV-Cache</translation>
        </message>
        <message>
            <source>Tokens of the first and smallest KV cache</source>
            <translation>Token des ersten und kleinsten KV-Caches</translation>
        </message>
        <message>
            <source>Tokens of the prompt</source>
            <translation>Token des Prompts</translation>
        </message>
        <message>
            <source>Tokens that one pass over the prompt takes at most: more passes, of few shapes,
in a smaller arena than one pass over all of it</source>
            <translation>Token, die ein Durchgang durch den Prompt höchstens nimmt: mehr Durchgänge mit wenigen Formen,
in einer kleineren Arena als ein Durchgang durch alle</translation>
        </message>
        <message>
            <source>Top-&amp;k</source>
            <translation>Top-&amp;k</translation>
        </message>
        <message>
            <source>Top-&amp;p</source>
            <translation>Top-&amp;p</translation>
        </message>
        <message>
            <source>Total</source>
            <translation>Gesamt</translation>
        </message>
        <message>
            <source>Trace for Perfetto (*.json)</source>
            <translation>Ablauf für Perfetto (*.json)</translation>
        </message>
        <message>
            <source>Transfers</source>
            <translation>Transfers</translation>
        </message>
        <message>
            <source>Try</source>
            <translation>Möglich:</translation>
        </message>
        <message>
            <source>Type</source>
            <translation>Typ</translation>
        </message>
        <message>
            <source>Type a command</source>
            <translation>Einen Befehl eingeben</translation>
        </message>
        <message>
            <source>Type and shape</source>
            <translation>Typ und Form</translation>
        </message>
        <message>
            <source>Type to search the catalogue, or type an amount such as 6 GiB</source>
            <translation>Tippen durchsucht den Katalog; auch eine Menge wie 6 GiB ist möglich</translation>
        </message>
        <message>
            <source>Types and shapes are enough to plan it; it cannot run</source>
            <translation>Typen und Formen genügen zum Planen; laufen kann es nicht</translation>
        </message>
        <message>
            <source>Use 4-bit weights in matrix products</source>
            <translation>4-Bit-Gewichte in Matrixprodukten verwenden</translation>
        </message>
        <message>
            <source>Use 4-bit weights with zero points in matrix products</source>
            <translation>4-Bit-Gewichte mit Nullpunkten in Matrixprodukten verwenden</translation>
        </message>
        <message>
            <source>Use float16 for weights and activations</source>
            <translation>Float16 für Gewichte und Aktivierungen verwenden</translation>
        </message>
        <message>
            <source>VRAMScope report (*{ending})</source>
            <translation>VRAMScope-Bericht (*{ending})</translation>
        </message>
        <message>
            <source>Values</source>
            <translation>Werte</translation>
        </message>
        <message>
            <source>Verify</source>
            <translation>Verify</translation>
        </message>
        <message>
            <source>Verify ×N replays steps, computes them eagerly too, and compares them here</source>
            <translation>Verify ×N gibt Schritte wieder, rechnet sie auch eager und vergleicht beides hier</translation>
        </message>
        <message>
            <source>Was</source>
            <translation>War</translation>
        </message>
        <message>
            <source>Weights</source>
            <translation>Gewichte</translation>
        </message>
        <message>
            <source>Weights that the node reads, stored or made from stored ones before the first step</source>
            <translation>Gewichte, die der Knoten liest: gespeicherte, oder vor dem ersten Schritt aus solchen gemachte</translation>
        </message>
        <message>
            <source>What</source>
            <translation>Was</translation>
        </message>
        <message>
            <source>What B takes more (+) or less (−); the bar is its part of the largest</source>
            <translation>Was B mehr (+) oder weniger (−) braucht; der Balken ist der Anteil am Größten</translation>
        </message>
        <message>
            <source>What a replay must find unchanged, buffer by buffer</source>
            <translation>Was ein Replay unverändert finden muss, Puffer für Puffer</translation>
        </message>
        <message>
            <source>What becomes of workspace, arena, cache and bindings appears here once something runs</source>
            <translation>Was aus Arbeitspuffer, Arena, Cache und Bindungen wird, erscheint hier, sobald etwas läuft</translation>
        </message>
        <message>
            <source>What bounds it</source>
            <translation>Was sie begrenzt</translation>
        </message>
        <message>
            <source>What happened</source>
            <translation>Was geschah</translation>
        </message>
        <message>
            <source>What happens appears here while the model runs: phases, captures, lost graphs</source>
            <translation>Was geschieht, erscheint hier, während das Modell läuft: Phasen, Captures, verlorene Graphen</translation>
        </message>
        <message>
            <source>What is shown now</source>
            <translation>Was jetzt gezeigt wird</translation>
        </message>
        <message>
            <source>What it does</source>
            <translation>Was er tut</translation>
        </message>
        <message>
            <source>What kernels took beside the plan: {kernel_temporaries}</source>
            <translation>Was Kernel neben dem Plan nahmen: {kernel_temporaries}</translation>
        </message>
        <message>
            <source>What pools, drivers and other processes hold beside these allocations</source>
            <translation>Was Pools, Treiber und andere Prozesse neben diesen Allokationen halten</translation>
        </message>
        <message>
            <source>What stands in the way; ✓ met, ✗ not met, ? not known yet</source>
            <translation>Was im Weg steht; ✓ erfüllt, ✗ nicht erfüllt, ? noch unbekannt</translation>
        </message>
        <message>
            <source>What the bars measure</source>
            <translation>Was die Balken messen</translation>
        </message>
        <message>
            <source>What the node made that is alive at the phase's peak, as a part of all that is alive then; of a scope all its nodes</source>
            <translation>Was der Knoten erzeugt hat und in der Spitze der Phase lebt, als Teil von allem, was dann lebt; von einem Bereich alle seine Knoten</translation>
        </message>
        <message>
            <source>What the slot held before</source>
            <translation>Was der Platz vorher hielt</translation>
        </message>
        <message>
            <source>What this is</source>
            <translation>Was dies ist</translation>
        </message>
        <message>
            <source>What to compare</source>
            <translation>Was verglichen wird</translation>
        </message>
        <message>
            <source>What to do</source>
            <translation>Was zu tun ist</translation>
        </message>
        <message>
            <source>What was going on</source>
            <translation>Was gerade geschah</translation>
        </message>
        <message>
            <source>What you see is the last state before that. Restart opens the model again.</source>
            <translation>Zu sehen ist der letzte Zustand davor. Ein Neustart öffnet das Modell wieder.</translation>
        </message>
        <message>
            <source>Where a bounded extent comes from; below the table in full</source>
            <translation>Woher eine Schranke kommt; unter der Tabelle vollständig</translation>
        </message>
        <message>
            <source>Whose kernels' scratch is planned, and what runs the model</source>
            <translation>Wessen Arbeitspuffer geplant wird und wo das Modell läuft</translation>
        </message>
        <message>
            <source>Why the last graph died</source>
            <translation>Warum der letzte Graph verloren ging</translation>
        </message>
        <message>
            <source>Why the node stands between two graphs</source>
            <translation>Warum der Knoten zwischen zwei Graphen steht</translation>
        </message>
        <message>
            <source>Words stand anywhere. op:MatMul  scope:layers.3  path:seam  kernel:reference  known:bound  out:4096
bytes&gt;1M  weights&gt;=2GiB  output=unknown  share&gt;5%  us&gt;100  launch:3
a leading − turns a term: -name:norm   * stands for any letters
op:=Add for the whole word, "two words" for a space</source>
            <translation>Wörter stehen irgendwo. op:MatMul  scope:layers.3  path:seam  kernel:reference  known:bound  out:4096
bytes&gt;1M  weights&gt;=2GiB  output=unknown  share&gt;5%  us&gt;100  launch:3
ein − davor kehrt um: -name:norm   * steht für beliebige Zeichen
op:=Add für das ganze Wort, "zwei Wörter" für ein Leerzeichen</translation>
        </message>
        <message>
            <source>Workspace</source>
            <translation>Puffer</translation>
        </message>
        <message>
            <source>Wrap the prompt in the model's chat template</source>
            <translation>Den Prompt in die Chat-Vorlage des Modells fassen</translation>
        </message>
        <message>
            <source>Write HOST, USER@HOST, or HOST:/path/to/vramscope; ports and keys belong into ~/.ssh/config</source>
            <translation>HOST, USER@HOST oder HOST:/pfad/zu/vramscope schreiben; Ports und Schlüssel gehören in </translation>
        </message>
        <message>
            <source>Write the plan as HTML, CSV, Markdown or JSON, or for Netron and Model Explorer</source>
            <translation>Den Plan als HTML, CSV, Markdown oder JSON schreiben, oder für Netron und Model Explorer</translation>
        </message>
        <message>
            <source>Writes</source>
            <translation>Schreibt</translation>
        </message>
        <message>
            <source>a side is unknown</source>
            <translation>eine Seite ist unbekannt</translation>
        </message>
        <message>
            <source>activations</source>
            <translation>Aktivierungen</translation>
        </message>
        <message>
            <source>aligned to {workspace_alignment}</source>
            <translation>ausgerichtet auf {workspace_alignment}</translation>
        </message>
        <message>
            <source>all</source>
            <translation>alle</translation>
        </message>
        <message>
            <source>all scopes</source>
            <translation>alle Bereiche</translation>
        </message>
        <message>
            <source>all {capacity:,} tokens of the context are used; plan a longer one to go on</source>
            <translation>alle {capacity:,} Token des Kontexts sind verbraucht; für mehr einen längeren planen</translation>
        </message>
        <message>
            <source>allocate</source>
            <translation>anlegen</translation>
        </message>
        <message>
            <source>allocs</source>
            <translation>Allok.</translation>
        </message>
        <message>
            <source>allocs last step</source>
            <translation>Alloc./Schritt</translation>
        </message>
        <message>
            <source>armed</source>
            <translation>scharf</translation>
        </message>
        <message>
            <source>as many as needed</source>
            <translation>so viele wie nötig</translation>
        </message>
        <message>
            <source>at step {step:,} {binding}: {field} changed{more}</source>
            <translation>bei Schritt {step:,} {binding}: {field} geändert{more}</translation>
        </message>
        <message>
            <source>at {offset:,}</source>
            <translation>bei {offset:,}</translation>
        </message>
        <message>
            <source>attribute</source>
            <translation>Attribut</translation>
        </message>
        <message>
            <source>batch {batch}</source>
            <translation>Batch {batch}</translation>
        </message>
        <message>
            <source>batch {batch}{most} &amp;nbsp; {parts}{words}</source>
            <translation>Batch {batch}{most} &amp;nbsp; {parts}{words}</translation>
        </message>
        <message>
            <source>beside the plan</source>
            <translation>neben dem Plan</translation>
        </message>
        <message>
            <source>bound</source>
            <translation>Schranke</translation>
        </message>
        <message>
            <source>budget</source>
            <translation>Budget</translation>
        </message>
        <message>
            <source>capture</source>
            <translation>Capture</translation>
        </message>
        <message>
            <source>captured</source>
            <translation>im Graph</translation>
        </message>
        <message>
            <source>card</source>
            <translation>Karte</translation>
        </message>
        <message>
            <source>card, used by everybody</source>
            <translation>Karte, von allen genutzt</translation>
        </message>
        <message>
            <source>claimed: {purpose}</source>
            <translation>beansprucht: {purpose}</translation>
        </message>
        <message>
            <source>comparing</source>
            <translation>Vergleichen</translation>
        </message>
        <message>
            <source>components</source>
            <translation>Komponenten</translation>
        </message>
        <message>
            <source>context full</source>
            <translation>Kontext voll</translation>
        </message>
        <message>
            <source>context, tokens</source>
            <translation>Kontext, Token</translation>
        </message>
        <message>
            <source>control flow</source>
            <translation>Verzweigung</translation>
        </message>
        <message>
            <source>control flow or sequence</source>
            <translation>Verzweigung oder Sequenz</translation>
        </message>
        <message>
            <source>decline</source>
            <translation>Ablehnung</translation>
        </message>
        <message>
            <source>device context</source>
            <translation>Gerätekontext</translation>
        </message>
        <message>
            <source>device seam</source>
            <translation>Geräte-Naht</translation>
        </message>
        <message>
            <source>differs</source>
            <translation>weicht ab</translation>
        </message>
        <message>
            <source>does not fit then, short by</source>
            <translation>passt dann nicht, es fehlen</translation>
        </message>
        <message>
            <source>downloads</source>
            <translation>Herunterladen</translation>
        </message>
        <message>
            <source>eager</source>
            <translation>eager</translation>
        </message>
        <message>
            <source>eager &lt;b&gt;{eager}&lt;/b&gt; tok/s ({steps_eager:,})</source>
            <translation>eager &lt;b&gt;{eager}&lt;/b&gt; tok/s ({steps_eager:,})</translation>
        </message>
        <message>
            <source>eager steps</source>
            <translation>Eager-Schritte</translation>
        </message>
        <message>
            <source>end of sequence</source>
            <translation>Ende der Sequenz</translation>
        </message>
        <message>
            <source>ending</source>
            <translation>Beenden</translation>
        </message>
        <message>
            <source>engine {engine_version}{where} · {devices} · process {process}</source>
            <translation>Engine {engine_version}{where} · {devices} · Prozess {process}</translation>
        </message>
        <message>
            <source>engine{where} starting…</source>
            <translation>Engine{where} startet …</translation>
        </message>
        <message>
            <source>engine{where} stopped</source>
            <translation>Engine{where} beendet</translation>
        </message>
        <message>
            <source>equal</source>
            <translation>gleich</translation>
        </message>
        <message>
            <source>equal weights stored once</source>
            <translation>gleiche Gewichte einmal gespeichert</translation>
        </message>
        <message>
            <source>error</source>
            <translation>Fehler</translation>
        </message>
        <message>
            <source>every kind</source>
            <translation>alle Arten</translation>
        </message>
        <message>
            <source>exact</source>
            <translation>exakt</translation>
        </message>
        <message>
            <source>exact, bound, or refused</source>
            <translation>exakt, Schranke oder abgelehnt</translation>
        </message>
        <message>
            <source>exit code {code}</source>
            <translation>Exit-Code {code}</translation>
        </message>
        <message>
            <source>filled</source>
            <translation>gefüllt</translation>
        </message>
        <message>
            <source>finished</source>
            <translation>fertig</translation>
        </message>
        <message>
            <source>fits then, to spare:</source>
            <translation>passt dann, übrig bleiben:</translation>
        </message>
        <message>
            <source>fits to {context:,}</source>
            <translation>passt bis {context:,}</translation>
        </message>
        <message>
            <source>fits with {size} to spare{where}</source>
            <translation>passt mit {size} Reserve{where}</translation>
        </message>
        <message>
            <source>from</source>
            <translation>von</translation>
        </message>
        <message>
            <source>greedy</source>
            <translation>greedy</translation>
        </message>
        <message>
            <source>grow</source>
            <translation>wachsen</translation>
        </message>
        <message>
            <source>growing</source>
            <translation>wachsend</translation>
        </message>
        <message>
            <source>growing shape</source>
            <translation>wachsende Form</translation>
        </message>
        <message>
            <source>grows to </source>
            <translation>wächst bis </translation>
        </message>
        <message>
            <source>held</source>
            <translation>gehalten</translation>
        </message>
        <message>
            <source>host seam</source>
            <translation>Host-Naht</translation>
        </message>
        <message>
            <source>host: own kernel; reference: onnx.reference; none: nothing runs it</source>
            <translation>host: eigener Kernel; reference: onnx.reference; none: nichts führt ihn aus</translation>
        </message>
        <message>
            <source>idle</source>
            <translation>ruht</translation>
        </message>
        <message>
            <source>in one pass</source>
            <translation>am Stück</translation>
        </message>
        <message>
            <source>in passes of </source>
            <translation>zu je </translation>
        </message>
        <message>
            <source>in {text} batch {batch} fits up to a context of {context:,}</source>
            <translation>auf {text} passt Batch {batch} bis zu einem Kontext von {context:,}</translation>
        </message>
        <message>
            <source>in: {text}</source>
            <translation>ein: {text}</translation>
        </message>
        <message>
            <source>input</source>
            <translation>Eingabe</translation>
        </message>
        <message>
            <source>input by data</source>
            <translation>Eingabe aus Daten</translation>
        </message>
        <message>
            <source>input shape depends on data</source>
            <translation>Eingabeform hängt von Daten ab</translation>
        </message>
        <message>
            <source>inputs and outputs</source>
            <translation>Ein- und Ausgaben</translation>
        </message>
        <message>
            <source>installed graph</source>
            <translation>installierter Graph</translation>
        </message>
        <message>
            <source>invalidate</source>
            <translation>ungültig</translation>
        </message>
        <message>
            <source>it could not be started: {problem}</source>
            <translation>sie ließ sich nicht starten: {problem}</translation>
        </message>
        <message>
            <source>it names no host for ssh</source>
            <translation>sie nennt keinen Rechner für ssh</translation>
        </message>
        <message>
            <source>it sent what the window cannot read: {error}</source>
            <translation>sie sandte, was das Fenster nicht lesen kann: {error}</translation>
        </message>
        <message>
            <source>its nodes together</source>
            <translation>seine Knoten zusammen</translation>
        </message>
        <message>
            <source>its run</source>
            <translation>sein Lauf</translation>
        </message>
        <message>
            <source>keeping the baseline</source>
            <translation>Grundlage festhalten</translation>
        </message>
        <message>
            <source>kernel cannot be recorded</source>
            <translation>Kernel nicht aufzeichenbar</translation>
        </message>
        <message>
            <source>largest batch {largest_batch:,}</source>
            <translation>größter Batch {largest_batch:,}</translation>
        </message>
        <message>
            <source>largest context {largest_context:,}</source>
            <translation>größter Kontext {largest_context:,}</translation>
        </message>
        <message>
            <source>largest logit difference {largest_logit_difference:.3g}</source>
            <translation>größte Logit-Differenz {largest_logit_difference:.3g}</translation>
        </message>
        <message>
            <source>largest part: {blame}</source>
            <translation>größter Teil: {blame}</translation>
        </message>
        <message>
            <source>last graph, which died</source>
            <translation>letzter Graph, der verloren ging</translation>
        </message>
        <message>
            <source>layers</source>
            <translation>Schichten</translation>
        </message>
        <message>
            <source>left to claim</source>
            <translation>noch zu beanspruchen</translation>
        </message>
        <message>
            <source>logits of the last position alone</source>
            <translation>Logits nur der letzten Position</translation>
        </message>
        <message>
            <source>measured</source>
            <translation>gemessen</translation>
        </message>
        <message>
            <source>measured {tip}</source>
            <translation>gemessen {tip}</translation>
        </message>
        <message>
            <source>met</source>
            <translation>erfüllt</translation>
        </message>
        <message>
            <source>model's limit</source>
            <translation>Grenze des Modells</translation>
        </message>
        <message>
            <source>moved</source>
            <translation>bewegt</translation>
        </message>
        <message>
            <source>ms</source>
            <translation>ms</translation>
        </message>
        <message>
            <source>needs {size}{where}; choose a card to judge it</source>
            <translation>braucht {size}{where}; für ein Urteil eine Karte wählen</translation>
        </message>
        <message>
            <source>no</source>
            <translation>nein</translation>
        </message>
        <message>
            <source>no block of the KV cache is free; plan more blocks or a smaller batch to go on</source>
            <translation>kein Block des KV-Cache ist frei; für mehr Token mehr Blöcke oder einen kleineren Batch planen</translation>
        </message>
        <message>
            <source>no ceiling</source>
            <translation>keine Obergrenze</translation>
        </message>
        <message>
            <source>no device graph</source>
            <translation>kein Gerätegraph</translation>
        </message>
        <message>
            <source>no free KV block</source>
            <translation>kein freier KV-Block</translation>
        </message>
        <message>
            <source>no launch</source>
            <translation>kein Start</translation>
        </message>
        <message>
            <source>no planned scratch</source>
            <translation>kein geplanter Arbeitspuffer</translation>
        </message>
        <message>
            <source>no prompt yet</source>
            <translation>noch kein Prompt</translation>
        </message>
        <message>
            <source>node {name}</source>
            <translation>Knoten {name}</translation>
        </message>
        <message>
            <source>node {name} is to blame</source>
            <translation>Ursache ist der Knoten {name}</translation>
        </message>
        <message>
            <source>nodes</source>
            <translation>Knoten</translation>
        </message>
        <message>
            <source>none</source>
            <translation>keine</translation>
        </message>
        <message>
            <source>not a number type</source>
            <translation>kein Zahlentyp</translation>
        </message>
        <message>
            <source>not asked yet</source>
            <translation>noch nicht gefragt</translation>
        </message>
        <message>
            <source>not known yet</source>
            <translation>noch unbekannt</translation>
        </message>
        <message>
            <source>not met</source>
            <translation>nicht erfüllt</translation>
        </message>
        <message>
            <source>not on this side</source>
            <translation>nicht auf dieser Seite</translation>
        </message>
        <message>
            <source>not recordable</source>
            <translation>nicht aufzeichenbar</translation>
        </message>
        <message>
            <source>not warm</source>
            <translation>nicht warm</translation>
        </message>
        <message>
            <source>not warm at these shapes</source>
            <translation>nicht warm bei diesen Formen</translation>
        </message>
        <message>
            <source>note</source>
            <translation>Hinweis</translation>
        </message>
        <message>
            <source>nothing</source>
            <translation>nichts</translation>
        </message>
        <message>
            <source>of </source>
            <translation>zu </translation>
        </message>
        <message>
            <source>of A</source>
            <translation>von A</translation>
        </message>
        <message>
            <source>of the model's size</source>
            <translation>in Größe des Modells</translation>
        </message>
        <message>
            <source>opening the model</source>
            <translation>Modell öffnen</translation>
        </message>
        <message>
            <source>out: {text}</source>
            <translation>aus: {text}</translation>
        </message>
        <message>
            <source>output</source>
            <translation>Ausgabe</translation>
        </message>
        <message>
            <source>output by data</source>
            <translation>Ausgabe aus Daten</translation>
        </message>
        <message>
            <source>output shape depends on data</source>
            <translation>Ausgabeform hängt von Daten ab</translation>
        </message>
        <message>
            <source>outputs, before the arena shares places</source>
            <translation>Ausgaben, bevor die Arena Plätze teilt</translation>
        </message>
        <message>
            <source>past and present in one buffer</source>
            <translation>Past und Present in einem Puffer</translation>
        </message>
        <message>
            <source>peak</source>
            <translation>Spitze</translation>
        </message>
        <message>
            <source>peak in {phase}</source>
            <translation>Spitze in {phase}</translation>
        </message>
        <message>
            <source>phase</source>
            <translation>Phase</translation>
        </message>
        <message>
            <source>planned in {milliseconds:.0f} ms</source>
            <translation>geplant in {milliseconds:.0f} ms</translation>
        </message>
        <message>
            <source>planned {tip}</source>
            <translation>geplant {tip}</translation>
        </message>
        <message>
            <source>planning</source>
            <translation>Planen</translation>
        </message>
        <message>
            <source>pool, driver, others</source>
            <translation>Pool, Treiber, andere</translation>
        </message>
        <message>
            <source>prefill</source>
            <translation>Prefill</translation>
        </message>
        <message>
            <source>prefill again to go on</source>
            <translation>mit einem neuen Prefill geht es weiter</translation>
        </message>
        <message>
            <source>profile</source>
            <translation>Profil</translation>
        </message>
        <message>
            <source>reading the report</source>
            <translation>Bericht lesen</translation>
        </message>
        <message>
            <source>ready</source>
            <translation>bereit</translation>
        </message>
        <message>
            <source>recording failed</source>
            <translation>Aufzeichnung misslang</translation>
        </message>
        <message>
            <source>records a trace</source>
            <translation>zeichnet einen Ablauf auf</translation>
        </message>
        <message>
            <source>reference (plan only)</source>
            <translation>reference (nur planen)</translation>
        </message>
        <message>
            <source>refuse</source>
            <translation>verweigern</translation>
        </message>
        <message>
            <source>refused</source>
            <translation>abgelehnt</translation>
        </message>
        <message>
            <source>release</source>
            <translation>freigeben</translation>
        </message>
        <message>
            <source>replace</source>
            <translation>ersetzen</translation>
        </message>
        <message>
            <source>replay</source>
            <translation>Replay</translation>
        </message>
        <message>
            <source>replay &lt;b&gt;{replay}&lt;/b&gt; tok/s ({steps_replayed:,})</source>
            <translation>Replay &lt;b&gt;{replay}&lt;/b&gt; tok/s ({steps_replayed:,})</translation>
        </message>
        <message>
            <source>replayed</source>
            <translation>wiedergegeben</translation>
        </message>
        <message>
            <source>reserve</source>
            <translation>reservieren</translation>
        </message>
        <message>
            <source>reserve, reuse, replace, release or refuse</source>
            <translation>reservieren, wiederverwenden, ersetzen, freigeben oder verweigern</translation>
        </message>
        <message>
            <source>reset</source>
            <translation>Zurücksetzen</translation>
        </message>
        <message>
            <source>reuse</source>
            <translation>wiederverwenden</translation>
        </message>
        <message>
            <source>reuse ×{count:,}</source>
            <translation>wiederverwendet ×{count:,}</translation>
        </message>
        <message>
            <source>running the model</source>
            <translation>Modell laufen lassen</translation>
        </message>
        <message>
            <source>saves {saves}</source>
            <translation>spart {saves}</translation>
        </message>
        <message>
            <source>scalar</source>
            <translation>Skalar</translation>
        </message>
        <message>
            <source>scratch</source>
            <translation>Puffer</translation>
        </message>
        <message>
            <source>scratch unknown: the shape of an input is refused</source>
            <translation>Arbeitspuffer unbekannt: die Form einer Eingabe ist abgelehnt</translation>
        </message>
        <message>
            <source>scratch {workspace_bytes}{formula}, {workspace_lifetime}, {aligned}</source>
            <translation>Arbeitspuffer {workspace_bytes}{formula}, {workspace_lifetime}, {aligned}</translation>
        </message>
        <message>
            <source>seconds</source>
            <translation>Sekunden</translation>
        </message>
        <message>
            <source>shape grows every step</source>
            <translation>Form wächst mit jedem Schritt</translation>
        </message>
        <message>
            <source>short by {size}{where}{largest}; {blame}</source>
            <translation>es fehlen {size}{where}{largest}; {blame}</translation>
        </message>
        <message>
            <source>signal {code}</source>
            <translation>Signal {code}</translation>
        </message>
        <message>
            <source>smallest {minimum!r}
largest {maximum!r}
mean {mean!r}</source>
            <translation>kleinster {minimum!r}
größter {maximum!r}
Mittel {mean!r}</translation>
        </message>
        <message>
            <source>starting the engine</source>
            <translation>Engine starten</translation>
        </message>
        <message>
            <source>step</source>
            <translation>Schritt</translation>
        </message>
        <message>
            <source>step {start}</source>
            <translation>Schritt {start}</translation>
        </message>
        <message>
            <source>steps {start} to {end}</source>
            <translation>Schritte {start} bis {end}</translation>
        </message>
        <message>
            <source>the KV cache is to blame</source>
            <translation>Ursache ist der KV-Cache</translation>
        </message>
        <message>
            <source>the activations are to blame</source>
            <translation>Ursache sind die Aktivierungen</translation>
        </message>
        <message>
            <source>the device context is to blame</source>
            <translation>Ursache ist der Gerätekontext</translation>
        </message>
        <message>
            <source>the inputs and outputs are to blame</source>
            <translation>Ursache sind die Ein- und Ausgaben</translation>
        </message>
        <message>
            <source>the machine {text!r}</source>
            <translation>die Maschine {text!r}</translation>
        </message>
        <message>
            <source>the model chose to end</source>
            <translation>das Modell hat geendet</translation>
        </message>
        <message>
            <source>the most of its nodes</source>
            <translation>das Höchste seiner Knoten</translation>
        </message>
        <message>
            <source>the one before died </source>
            <translation>der davor ging verloren </translation>
        </message>
        <message>
            <source>the plan</source>
            <translation>der Plan</translation>
        </message>
        <message>
            <source>the scratch that the reference runtime's CUDA kernels document; nothing here runs them</source>
            <translation>der Arbeitspuffer, den die CUDA-Kernel der Referenz dokumentieren; nichts hier führt sie aus</translation>
        </message>
        <message>
            <source>the trace</source>
            <translation>der Ablauf</translation>
        </message>
        <message>
            <source>the weights are to blame</source>
            <translation>Ursache sind die Gewichte</translation>
        </message>
        <message>
            <source>the whole graph</source>
            <translation>der ganze Graph</translation>
        </message>
        <message>
            <source>the workspace is to blame</source>
            <translation>Ursache ist der Arbeitspuffer</translation>
        </message>
        <message>
            <source>the {shown:,} that differ most of {rows:,}</source>
            <translation>die {shown:,} mit der größten Differenz von {rows:,}</translation>
        </message>
        <message>
            <source>to</source>
            <translation>an</translation>
        </message>
        <message>
            <source>token</source>
            <translation>Token</translation>
        </message>
        <message>
            <source>total</source>
            <translation>gesamt</translation>
        </message>
        <message>
            <source>transfer</source>
            <translation>Transfer</translation>
        </message>
        <message>
            <source>unaligned</source>
            <translation>nicht ausgerichtet</translation>
        </message>
        <message>
            <source>unknown</source>
            <translation>unbekannt</translation>
        </message>
        <message>
            <source>unsupported</source>
            <translation>nicht unterstützt</translation>
        </message>
        <message>
            <source>uploads</source>
            <translation>Hochladen</translation>
        </message>
        <message>
            <source>uploads {uploads:,} ({upload_bytes})
downloads {downloads:,} ({download_bytes})</source>
            <translation>hochgeladen {uploads:,} ({upload_bytes})
heruntergeladen {downloads:,} ({download_bytes})</translation>
        </message>
        <message>
            <source>verify</source>
            <translation>Verify</translation>
        </message>
        <message>
            <source>warm-up</source>
            <translation>Aufwärmen</translation>
        </message>
        <message>
            <source>warning</source>
            <translation>Warnung</translation>
        </message>
        <message>
            <source>weight</source>
            <translation>Gewicht</translation>
        </message>
        <message>
            <source>weights</source>
            <translation>Gewichte</translation>
        </message>
        <message>
            <source>weights and activations in float16</source>
            <translation>Gewichte und Aktivierungen in Float16</translation>
        </message>
        <message>
            <source>weights, at every node that reads them</source>
            <translation>Gewichte, bei jedem Knoten, der sie liest</translation>
        </message>
        <message>
            <source>while nothing was running</source>
            <translation>während nichts lief</translation>
        </message>
        <message>
            <source>while running: {running}</source>
            <translation>während lief: {running}</translation>
        </message>
        <message>
            <source>word</source>
            <translation>wort</translation>
        </message>
        <message>
            <source>workspace</source>
            <translation>Arbeitspuffer</translation>
        </message>
        <message>
            <source>writing the report</source>
            <translation>Bericht schreiben</translation>
        </message>
        <message>
            <source>yes</source>
            <translation>ja</translation>
        </message>
        <message>
            <source>{bindings} of the {name} slot</source>
            <translation>{bindings} auf dem Platz {name}</translation>
        </message>
        <message>
            <source>{cards}: far above this chart, every context fits</source>
            <translation>{cards}: weit über diesem Diagramm, jeder Kontext passt</translation>
        </message>
        <message>
            <source>{field} was {old} and is {new}</source>
            <translation>{field} war {old} und ist {new}</translation>
        </message>
        <message>
            <source>{held}, peak {peak_bytes} at step {peak_step:,}</source>
            <translation>{held}, Spitze {peak_bytes} bei Schritt {peak_step:,}</translation>
        </message>
        <message>
            <source>{key} is a text: {key}:{value}</source>
            <translation>{key} ist ein Text: {key}:{value}</translation>
        </message>
        <message>
            <source>{key} is compared with an amount: {key}&gt;1M, {key}&lt;=4096 or {key}=unknown</source>
            <translation>{key} wird mit einer Menge verglichen: {key}&gt;1M, {key}&lt;=4096 oder {key}=unknown</translation>
        </message>
        <message>
            <source>{measure}: {size}</source>
            <translation>{measure}: {size}</translation>
        </message>
        <message>
            <source>{met} of {preconditions} met</source>
            <translation>{met} von {preconditions} erfüllt</translation>
        </message>
        <message>
            <source>{minimum:.4g} to {maximum:.4g}, {mean:.3g}</source>
            <translation>{minimum:.4g} bis {maximum:.4g}, {mean:.3g}</translation>
        </message>
        <message>
            <source>{more:,} more</source>
            <translation>{more:,} weitere</translation>
        </message>
        <message numerus="yes">
            <source>{n:,} binding(s)</source>
            <translation>
                <numerusform>{n:,} Bindung</numerusform>
                <numerusform>{n:,} Bindungen</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} decline(s)</source>
            <translation>
                <numerusform>{n:,} Ablehnung</numerusform>
                <numerusform>{n:,} Ablehnungen</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} device node(s)</source>
            <translation>
                <numerusform>{n:,} Geräteknoten</numerusform>
                <numerusform>{n:,} Geräteknoten</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} eager seam(s)</source>
            <translation>
                <numerusform>{n:,} Eager-Naht</numerusform>
                <numerusform>{n:,} Eager-Nähte</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} event(s)</source>
            <translation>
                <numerusform>{n:,} Ereignis</numerusform>
                <numerusform>{n:,} Ereignisse</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} layer(s)</source>
            <translation>
                <numerusform>{n:,} Schicht</numerusform>
                <numerusform>{n:,} Schichten</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} more field(s)</source>
            <translation>
                <numerusform>{n:,} weiteres Feld</numerusform>
                <numerusform>{n:,} weitere Felder</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} more node(s)</source>
            <translation>
                <numerusform>{n:,} weiterer Knoten</numerusform>
                <numerusform>{n:,} weitere Knoten</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} node(s)</source>
            <translation>
                <numerusform>{n:,} Knoten</numerusform>
                <numerusform>{n:,} Knoten</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} node(s) of unknown bytes not drawn</source>
            <translation>
                <numerusform>{n:,} Knoten mit unbekannten Bytes nicht gezeichnet</numerusform>
                <numerusform>{n:,} Knoten mit unbekannten Bytes nicht gezeichnet</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} precondition(s)</source>
            <translation>
                <numerusform>{n:,} Voraussetzung</numerusform>
                <numerusform>{n:,} Voraussetzungen</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} segment(s)</source>
            <translation>
                <numerusform>{n:,} Abschnitt</numerusform>
                <numerusform>{n:,} Abschnitte</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} step(s)</source>
            <translation>
                <numerusform>{n:,} Schritt</numerusform>
                <numerusform>{n:,} Schritte</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <source>{n:,} suggestion(s)</source>
            <translation>
                <numerusform>{n:,} Vorschlag</numerusform>
                <numerusform>{n:,} Vorschläge</numerusform>
            </translation>
        </message>
        <message>
            <source>{name}
{operator}, step {step}, kernel: {kernel}
outputs: {size}</source>
            <translation>{name}
{operator}, Schritt {step}, Kernel: {kernel}
Ausgaben: {size}</translation>
        </message>
        <message>
            <source>{name} (plan only)</source>
            <translation>{name} (nur planen)</translation>
        </message>
        <message>
            <source>{name} cannot run it here: {why}; choose another device</source>
            <translation>{name} kann es hier nicht ausführen: {why}; ein anderes Gerät wählen</translation>
        </message>
        <message>
            <source>{name} is open; its plan is not there yet</source>
            <translation>{name} ist offen; der Plan ist noch nicht da</translation>
        </message>
        <message>
            <source>{name} · {nodes} in {phase}{more}</source>
            <translation>{name} · {nodes} in {phase}{more}</translation>
        </message>
        <message>
            <source>{name}: {symbolic} planned as {shape}</source>
            <translation>{name}: {symbolic}, geplant als {shape}</translation>
        </message>
        <message>
            <source>{needed} needed, {available} available</source>
            <translation>{needed} nötig, {available} verfügbar</translation>
        </message>
        <message>
            <source>{needed} of {available}</source>
            <translation>{needed} von {available}</translation>
        </message>
        <message>
            <source>{nodes_captured:,} of {nodes}</source>
            <translation>{nodes_captured:,} von {nodes}</translation>
        </message>
        <message>
            <source>{nodes} on both sides, {changed:,} of them differ; {alone}</source>
            <translation>{nodes} auf beiden Seiten, {changed:,} davon weichen ab; {alone}</translation>
        </message>
        <message>
            <source>{node} is not in the tree of this phase</source>
            <translation>{node} steht nicht im Baum dieser Phase</translation>
        </message>
        <message>
            <source>{only_left:,} only in A, {only_right:,} only in B</source>
            <translation>{only_left:,} nur in A, {only_right:,} nur in B</translation>
        </message>
        <message>
            <source>{operator} (opset {opset}), step {step} of {phase}, kernel: {kernel}</source>
            <translation>{operator} (Opset {opset}), Schritt {step} von {phase}, Kernel: {kernel}</translation>
        </message>
        <message>
            <source>{part} of {whole} alive at the peak: {percent:.4f}%</source>
            <translation>{part} von {whole}, die in der Spitze leben: {percent:.4f}%</translation>
        </message>
        <message>
            <source>{path} cannot be written</source>
            <translation>{path} lässt sich nicht schreiben</translation>
        </message>
        <message>
            <source>{path} cannot be written: {strerror}</source>
            <translation>{path} lässt sich nicht schreiben: {strerror}</translation>
        </message>
        <message>
            <source>{position:,} of {capacity:,} tokens</source>
            <translation>{position:,} von {capacity:,} Token</translation>
        </message>
        <message numerus="yes">
            <source>{shown:,} of {n:,} node(s)</source>
            <translation>
                <numerusform>{shown:,} von {n:,} Knoten</numerusform>
                <numerusform>{shown:,} von {n:,} Knoten</numerusform>
            </translation>
        </message>
        <message>
            <source>{sizes:,} blocks in {bytes}</source>
            <translation>{sizes:,} Blöcke in {bytes}</translation>
        </message>
        <message>
            <source>{size} less than the file as it is</source>
            <translation>{size} weniger als die Datei, wie sie ist</translation>
        </message>
        <message>
            <source>{size} more than the file as it is</source>
            <translation>{size} mehr als die Datei, wie sie ist</translation>
        </message>
        <message>
            <source>{symbol}: {low:,} to {high}{now}
{refused}</source>
            <translation>{symbol}: {low:,} bis {high}{now}
{refused}</translation>
        </message>
        <message>
            <source>{taken:,} blocks of {size:,} tokens are taken: {used:,} of {held:,} held tokens are used</source>
            <translation>{taken:,} Blöcke mit je {size:,} Token sind belegt: {used:,} von {held:,} gehaltenen Token sind benutzt</translation>
        </message>
        <message>
            <source>{taken:,} of {all:,} blocks</source>
            <translation>{taken:,} von {all:,} Blöcken</translation>
        </message>
        <message>
            <source>{target} at batch {batch}{length}</source>
            <translation>{target} bei Batch {batch}{length}</translation>
        </message>
        <message>
            <source>{term}: {value} is no amount such as {examples}</source>
            <translation>{term}: {value} ist keine Menge wie {examples}</translation>
        </message>
        <message>
            <source>{time:,.3f} µs</source>
            <translation>{time:,.3f} µs</translation>
        </message>
        <message>
            <source>{title} shows no chart to save: click into a panel that does</source>
            <translation>{title} zeigt kein Diagramm zum Speichern: dazu in ein anderes Paneel klicken</translation>
        </message>
        <message>
            <source>{title} shows no table to copy: click into a panel that does</source>
            <translation>{title} zeigt keine Tabelle zum Kopieren: dazu in ein anderes Paneel klicken</translation>
        </message>
        <message>
            <source>{title} shows no table to save: click into a panel that does</source>
            <translation>{title} zeigt keine Tabelle zum Speichern: dazu in ein anderes Paneel klicken</translation>
        </message>
        <message>
            <source>{title} · saves {saves}{rest}</source>
            <translation>{title} · spart {saves}{rest}</translation>
        </message>
        <message>
            <source>{values}{node} · {size} · steps {first:,} to {end:,}</source>
            <translation>{values}{node} · {size} · Schritte {first:,} bis {end:,}</translation>
        </message>
        <message>
            <source>{weights_bytes} weights</source>
            <translation>{weights_bytes} Gewichte</translation>
        </message>
        <message>
            <source>µs</source>
            <translation>µs</translation>
        </message>
        <message>
            <source>· {measured} measured</source>
            <translation>· {measured} gemessen</translation>
        </message>
        <message>
            <source>≤ before a bounded extent</source>
            <translation>≤ vor einer Schranke</translation>
        </message>
        <message>
            <source>■ Stopped: {finished} – {means}</source>
            <translation>■ Angehalten: {finished} – {means}</translation>
        </message>
        <message>
            <source>✓ Captured {nodes}: {segments}{tail}, {own}</source>
            <translation>✓ {nodes} aufgezeichnet: {segments}{tail}, {own}</translation>
        </message>
        <message>
            <source>✓ Profiled {steps}: {time:,.0f} µs each</source>
            <translation>✓ {steps} gemessen: je {time:,.0f} µs</translation>
        </message>
        <message>
            <source>✓ Replay equals eager over {steps}; {difference}</source>
            <translation>✓ Replay gleicht Eager über {steps}; {difference}</translation>
        </message>
        <message>
            <source>✗ Nothing was captured: {declines}</source>
            <translation>✗ Nichts wurde aufgezeichnet: {declines}</translation>
        </message>
        <message>
            <source>✗ Replay differs from eager at step {first_difference}; {difference}</source>
            <translation>✗ Replay weicht bei Schritt {first_difference} von Eager ab; {difference}</translation>
        </message>
    </context>
</TS>
