# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the style sheet of the HTML report."""

from __future__ import annotations

# Wide tables become cards below 46rem, because a table of ten columns cannot be read on a phone.
STYLE = """\
:root {
  --ground: #f6f7f9; --card: #fff; --ink: #1a1d21; --soft: #59626c; --line: #d9dee4; --link: #0b57a4;
  --good: #17703a; --good-ground: #e3f4e9; --warn: #8a5300; --warn-ground: #fdf0d9; --bad: #b01226; --bad-ground: #fce7e9;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --card: #1d2126; --ink: #e7eaee; --soft: #a3adb8; --line: #363d45; --link: #82bcff;
    --good: #6fd596; --good-ground: #14321f; --warn: #f2bd6a; --warn-ground: #3a2a0e; --bad: #ff939d; --bad-ground: #431a20;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1rem/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 84rem; margin: 0 auto; padding: 1rem clamp(0.75rem, 3vw, 2.5rem) 3rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 0.25rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.75rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: 0.35rem 0; }
a { color: var(--link); }
code, pre, .code, q, dd { overflow-wrap: anywhere; }
code, pre, .code { font-family: ui-monospace, "SF Mono", Consolas, monospace; font-size: 0.9em; }
header { background: var(--card); border: 1px solid var(--line); border-left: 0.4rem solid var(--soft); border-radius: 0.5rem; padding: 1rem 1.25rem; }
header.good { border-left-color: var(--good); } header.warn { border-left-color: var(--warn); } header.bad { border-left-color: var(--bad); }
.state b { display: inline-block; margin-right: 0.35rem; }
.state b::first-letter { text-transform: uppercase; }
.good > .state b { color: var(--good); } .warn > .state b { color: var(--warn); } .bad > .state b { color: var(--bad); }
dl { display: flex; flex-wrap: wrap; gap: 0.25rem 2rem; margin: 0.75rem 0 0; }
dt, .tiles span, .subject, small { color: var(--soft); font-size: 0.85rem; }
dd { margin: 0; }
.tiles { list-style: none; display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: 0.6rem; margin: 1rem 0; padding: 0; }
.tiles li { background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem; padding: 0.6rem 0.8rem; }
.tiles b { display: block; font-size: 1.6rem; line-height: 1.1; }
.tiles .good b { color: var(--good); } .tiles .warn b { color: var(--warn); } .tiles .bad b { color: var(--bad); }
em { font-style: normal; font-weight: 600; font-size: 0.85rem; border-radius: 1rem; padding: 0.1rem 0.6rem; white-space: nowrap; background: var(--line); }
em.good { color: var(--good); background: var(--good-ground); }
em.warn { color: var(--warn); background: var(--warn-ground); }
em.bad { color: var(--bad); background: var(--bad-ground); }
.card { background: var(--card); border: 1px solid var(--line); border-left: 0.25rem solid var(--soft); border-radius: 0.5rem; }
.card { padding: 0.75rem 1rem; margin: 0 0 0.75rem; }
.card.bad { border-left-color: var(--bad); } .card.warn { border-left-color: var(--warn); }
.card ul { margin: 0.35rem 0; padding-left: 1.1rem; }
.card li span { color: var(--soft); overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--soft); }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem; padding: 0.75rem 1rem; margin: 0.5rem 0 1rem; white-space: pre-wrap; }
del, ins { display: block; text-decoration: none; } del { color: var(--bad); } ins { color: var(--good); }
.wide { background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 0.5rem 0.75rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-size: 0.85rem; font-weight: 600; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
td { font-variant-numeric: tabular-nums; }
td:first-child, td.word { white-space: nowrap; }
th.number, td.number { text-align: right; }
@media (max-width: 46rem) {
  .wide { background: none; border: 0; overflow: visible; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody { display: block; }
  tr { display: block; background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem; padding: 0.5rem 0.75rem; margin: 0 0 0.6rem; }
  td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: 0.15rem 0; text-align: right; overflow-wrap: anywhere; }
  td.empty { display: none; }
  td:first-child, td.word { white-space: normal; }
  td::before { content: attr(data-name); color: var(--soft); text-align: left; flex: none; }
  td:first-child { font-weight: 600; }
}
"""
