"""The style sheet of the report: light, dark and print from one set of custom properties."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --card: #ffffff; --ink: #1d2129; --muted: #5d6470; --line: #e4e2dd;
  --accent: #1f5fbf; --accent-soft: #e8effa; --truth: #b4471b; --good: #1d7a4c; --bad: #b3261e;
  --series-1: #1f5fbf; --series-2: #b4471b; --series-3: #6b4fa0; --series-4: #1d7a4c;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #14171c; --card: #1c2027; --ink: #e8e9ec; --muted: #a0a7b4; --line: #333943;
    --accent: #7fb0ff; --accent-soft: #1f2b3f; --truth: #ff9d6b; --good: #6cd49d; --bad: #ff8a80;
    --series-1: #7fb0ff; --series-2: #ff9d6b; --series-3: #c3a6ff; --series-4: #6cd49d;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main, header, footer { max-width: 52rem; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 3.2rem; }
.eyebrow {
  margin: 0; color: var(--accent); font-size: .8rem; font-weight: 600;
  letter-spacing: .08em; text-transform: uppercase;
}
h1 { margin: .3rem 0 .6rem; font-size: 2.1rem; line-height: 1.2; letter-spacing: -.015em; }
h2 { margin: 0 0 .5rem; font-size: 1.3rem; letter-spacing: -.01em; }
h3 { margin: 1.4rem 0 .3rem; font-size: 1rem; }
p { margin: .5rem 0; max-width: 44rem; }
.lede { color: var(--muted); font-size: 1.08rem; }
.muted, figcaption, footer { color: var(--muted); }
figcaption, .small { font-size: .88rem; }
section {
  margin: 1.5rem 0; padding: 1.5rem 1.7rem; background: var(--card);
  border: 1px solid var(--line); border-radius: 14px;
}
.tiles {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1rem;
  margin: 1.6rem 0 0; padding: 0;
}
.tile { padding: 1rem 1.2rem; background: var(--accent-soft); border-radius: 14px; }
.tile dt { color: var(--muted); font-size: .85rem; }
.tile dd { margin: .1rem 0 0; font-size: 1.35rem; font-weight: 650; letter-spacing: -.01em; }
.tile dd + dd { color: var(--muted); font-size: .85rem; font-weight: 400; letter-spacing: 0; }
.met { color: var(--good); } .unmet { color: var(--bad); }
figure { margin: 1rem 0 0; }
figure svg { display: block; width: 100%; height: auto; font-family: inherit; }
figure svg path, figure svg use { stroke-linejoin: round; }
.scroll { overflow-x: auto; }
table { width: 100%; margin: .9rem 0; border-collapse: collapse; font-size: .95rem; }
caption { padding-bottom: .3rem; color: var(--muted); font-size: .88rem; text-align: left; }
th, td { padding: .5rem .9rem .5rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
th { font-weight: 600; }
thead th { color: var(--muted); font-size: .82rem; font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:last-child td, tbody tr:last-child th { border-bottom: 0; }
th:last-child, td:last-child { padding-right: 0; }
tbody th { min-width: 15rem; }
th small { display: block; color: var(--muted); font-weight: 400; }
ul { margin: .5rem 0; padding-left: 1.2rem; }
li { margin: .25rem 0; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
code { font-size: .9em; }
pre {
  margin: .7rem 0; padding: 1rem 1.2rem; overflow-x: auto; background: var(--paper);
  border: 1px solid var(--line); border-radius: 10px; font-size: .85rem; line-height: 1.5;
}
dl.facts {
  display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.4rem; margin: .7rem 0;
}
dl.facts dt { color: var(--muted); }
dl.facts dd { margin: 0; }
footer { padding-bottom: 3rem; font-size: .88rem; }
@media (max-width: 34rem) {
  main, header, footer { padding-left: .9rem; padding-right: .9rem; }
  h1 { font-size: 1.6rem; }
  section { padding: 1.1rem .9rem; }
  .tile { padding: .8rem 1rem; }
  .tile dd { font-size: 1.25rem; }
  table { font-size: .85rem; }
  th, td { padding-right: .6rem; }
  thead th.n { white-space: normal; }
  tbody th { min-width: 6rem; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  figure { margin-left: -.5rem; margin-right: -.5rem; }
  figcaption { margin: 0 .5rem; }
  dl.facts { grid-template-columns: 1fr; gap: 0; }
  dl.facts dd { margin-bottom: .5rem; }
}
@media screen and (max-width: 34rem) {
  /* Tables of a known kind: the name of a row on a line of its own, and its numbers below. */
  table.stacked { display: grid; grid-template-columns: repeat(3, 1fr); }
  .stacked :is(thead, tbody, tr) {
    display: grid; grid-column: 1 / -1; grid-template-columns: subgrid;
  }
  .stacked :is(caption, th:first-child) { grid-column: 1 / -1; }
  .stacked tr { padding: .4rem 0; border-bottom: 1px solid var(--line); }
  .stacked tbody tr:last-child { border-bottom: 0; }
  .stacked :is(th, td) { min-width: 0; padding: .05rem .6rem .05rem 0; border: 0; }
  .stacked .n { text-align: left; white-space: normal; }
  /* Estimates: the truth and the distance from it below the estimate and its limits. */
  table.estimates { grid-template-columns: minmax(5rem, 1fr) auto auto; }
  .estimates th:first-child { grid-column: 1; overflow-wrap: anywhere; }
  .estimates .n { padding: .05rem 0 .05rem .8rem; text-align: right; }
  .estimates .n:nth-child(4) { grid-column: 2; }
  .estimates .n:nth-child(n + 4) { color: var(--muted); }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #fff; --card: #fff; --ink: #000; --muted: #444; --line: #ccc; --accent-soft: #f2f2f2;
  }
  html { font-size: 10pt; }
  body { font-size: 1rem; orphans: 3; widows: 3; }
  header { padding-top: 0; }
  section { padding: .6rem 0; border: 0; border-top: 1px solid var(--line); border-radius: 0; }
  .tile { border: 1px solid var(--line); }
  .tile dd { font-size: 1.2rem; }
  figure, table, tr, .tile, li, dl.facts { break-inside: avoid; }
  figure svg { width: 85%; max-height: 17.5cm; margin: 0 auto; }
  h2, h3, caption { break-after: avoid; }
  p.small { break-before: avoid; }
  .scroll, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
}
""".strip()
