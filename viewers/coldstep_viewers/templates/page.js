// What the page does beyond its text: the charts, and tables that sort, search and open. The trace's texts are put in
// as text, never as markup.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NO_BREAK = "\u00a0";

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  // As figures.py writes them.
  function duration(ns) {
    for (const [unit, scale] of [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]]) {
      const value = ns / scale;
      const text = value < 99.95 && ns >= 1000 ? value.toFixed(1) : value.toFixed(0);
      if (Number(text) < (unit === "s" ? 120 : 1000)) return text + NO_BREAK + unit;
    }
    const minutes = Math.floor(Math.round(ns / 1e9) / 60);
    if (minutes < 60) return `${minutes} min ${Math.round(ns / 1e9) % 60} s`;
    return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  const percent = (share) => (share > 0 && share < 0.005 ? "<1" : String(Math.round(100 * share))) + NO_BREAK + "%";
  const bytes = (n) => (n < 2 ** 30 ? `${(n / 2 ** 20).toFixed(0)} MiB` : `${(n / 2 ** 30).toFixed(1)} GiB`);
  const sum = (numbers) => numbers.reduce((total, n) => total + n, 0);

  // --- steps ---------------------------------------------------------------------------------------------------------

  const MARKS = {
    first: ["circle", "--link"],
    settling: ["diamond", "--warn"],
    recompiled: ["triangle", "--bad"],
    compiled: ["square", "--warn"],
    unfinished: ["times", "--bad"],
  };
  const TOLD = ["unfinished", "first", "recompiled", "compiled", "settling", "steady"];

  // The most telling of the labels of the steps that a bar stands for.
  const label = (bar) => TOLD.find((word) => word in bar.labels) ?? "";
  const ordinals = (bar) => (bar.from === bar.to ? `step ${bar.from}` : `steps ${bar.from}–${bar.to}`);

  function summary(bar) {
    const count = sum(Object.values(bar.labels));
    if (count === 1) return `${label(bar)}, ${duration(bar.ns)}`;
    const words = Object.entries(bar.labels).map(([word, n]) => `${n} ${word}`).join(", ");
    return `${words}; median ${duration(bar.ns)}, from ${duration(bar.low)} to ${duration(bar.high)}`;
  }

  function phases(kind, bar) {
    const wall = sum(bar.phases);
    return bar.phases
      .map((ns, index) => [kind.tones[index][0], ns / wall])
      .filter(([, share]) => share >= 0.005)
      .sort((a, b) => b[1] - a[1])
      .map(([name, share]) => `${name} ${percent(share)}`)
      .join(", ");
  }

  // Bars whose height is the time; on the logarithmic scale, too, the colours divide a bar as the phases divide the step.
  function pieces(kind, scale, base) {
    return kind.bars.flatMap((bar, index) => {
      const wall = sum(bar.phases) || 1;
      let below = 0;
      const level = (share) => (scale === "log" ? base * (Math.max(bar.ns, base) / base) ** share : bar.ns * share);
      return bar.phases.map((ns, phase) => {
        const from = below / wall;
        below += ns;
        return {index, from: level(from), to: level(below / wall), fill: `var(--${kind.tones[phase][1]})`};
      }).filter((piece) => piece.to > piece.from);
    });
  }

  function chart(kind, scale, width) {
    const count = kind.bars.length;
    const least = d3.min(kind.bars, (bar) => bar.ns || 1);
    const most = d3.max(kind.bars, (bar) => bar.high || 1);
    const decade = 10 ** Math.floor(Math.log10(least));
    const base = least / decade >= 3 ? decade : decade / 10;
    const margin = {left: 58, right: 12};
    const pitch = (width - margin.left - margin.right) / count;
    const every = Math.max(1, Math.ceil(44 / pitch));
    // the time is written over the bars that stand out, the longest first, where there is room
    const written = [];
    for (const [index, bar] of [...kind.bars.entries()].sort((a, b) => b[1].ns - a[1].ns)) {
      if (written.length >= 12) break;
      const telling = label(bar) !== "steady" || pitch > 62;
      if (telling && written.every((other) => Math.abs(other - index) * pitch > 62)) written.push(index);
    }
    const low = Math.round(Math.log10(base));
    const ticks = scale === "log" ? d3.range(low, Math.log10(most) + 0.05).map((power) => 10 ** power) : 5;
    const svg = Plot.plot({
      width,
      height: 300,
      marginLeft: margin.left,
      marginRight: margin.right,
      marginTop: 24,
      marginBottom: 46,
      style: {fontFamily: "inherit", fontSize: "12px"},
      x: {type: "band", domain: d3.range(count), padding: count > 60 ? 0 : 0.18},
      y: {type: scale, domain: scale === "log" ? [base, most * 1.1] : [0, most * 1.05]},
      marks: [
        Plot.gridY({ticks, strokeOpacity: 0.12}),
        Plot.axisY({ticks, tickSize: 0, label: null, tickFormat: (ns) => (ns ? duration(ns) : "0")}),
        Plot.axisX({
          ticks: d3.range(0, count, every), tickSize: 0, tickPadding: 20, label: null,
          tickFormat: (index) => String(kind.bars[index].from),
        }),
        Plot.barY(pieces(kind, scale, base), {
          x: "index", y1: "from", y2: "to", fill: {value: "fill", scale: null}, className: "bars",
        }),
        Plot.ruleX(kind.bars.map((bar, index) => ({...bar, index})).filter((bar) => bar.high > bar.low), {
          x: "index", y1: (bar) => Math.max(bar.low, scale === "log" ? base : 0), y2: "high", stroke: "currentColor",
        }),
        Plot.text(written, {
          x: (index) => index, y: (index) => kind.bars[index].ns, text: (index) => duration(kind.bars[index].ns), dy: -9,
          fill: "var(--ink)", fontWeight: 600,
        }),
        ...Object.entries(MARKS).map(([word, [symbol, colour]]) =>
          Plot.dot(d3.range(count).filter((index) => label(kind.bars[index]) === word), {
            x: (index) => index, frameAnchor: "bottom", dy: 11, symbol, r: 3.6, fill: `var(${colour})`,
            stroke: symbol === "times" ? `var(${colour})` : null,
          })),
      ],
    });
    svg.setAttribute("aria-hidden", "true"); // the readout has it in words
    const x = svg.scale("x");
    const hit = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const at = document.createElementNS("http://www.w3.org/2000/svg", "g");
    hit.setAttribute("class", "hit");
    hit.setAttribute("y", 24);
    hit.setAttribute("height", 300 - 24 - 30);
    hit.setAttribute("width", x.step ?? pitch);
    at.setAttribute("class", "at");
    svg.append(at);
    return {
      svg,
      point(index) {
        hit.setAttribute("x", x.apply(index) - ((x.step ?? pitch) - x.bandwidth) / 2);
        at.replaceChildren(hit);
      },
      index(clientX) {
        const box = svg.getBoundingClientRect();
        const px = ((clientX - box.left) / box.width) * width - margin.left;
        return Math.min(count - 1, Math.max(0, Math.floor(px / pitch)));
      },
    };
  }

  for (const figure of document.querySelectorAll("figure.steps")) {
    const kind = data.kinds[Number(figure.dataset.kind)];
    const place = figure.querySelector(".chart");
    const readout = figure.querySelector(".readout");
    const legend = figure.querySelector(".legend");
    let scale = "linear";
    let current = 0;
    let drawn;
    for (const [word, [symbol, colour]] of Object.entries(MARKS)) {
      if (kind.bars.some((bar) => word in bar.labels)) {
        const path = d3.create("svg:svg").attr("width", 10).attr("height", 10).attr("viewBox", "-5 -5 10 10");
        path.append("path").attr("d", d3.symbol(d3[`symbol${symbol[0].toUpperCase()}${symbol.slice(1)}`], 34)())
          .attr("style", `fill: var(${colour}); stroke: ${symbol === "times" ? `var(${colour})` : "none"}`);
        legend.append(make("li", {class: "mark"}, path.node(), ` ${word}`));
      }
    }
    const show = (index) => {
      current = index;
      const bar = kind.bars[index];
      drawn.point(index);
      readout.replaceChildren(make("b", {}, ordinals(bar)), ` ${summary(bar)}: ${phases(kind, bar)}`);
    };
    const draw = () => {
      drawn = chart(kind, scale, Math.max(280, place.clientWidth));
      place.replaceChildren(drawn.svg);
      show(current);
    };
    place.addEventListener("pointermove", (event) => show(drawn.index(event.clientX)));
    place.addEventListener("pointerdown", (event) => show(drawn.index(event.clientX)));
    place.addEventListener("focus", () => show(current));
    place.addEventListener("keydown", (event) => {
      const last = kind.bars.length - 1;
      const to = {ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: last}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(Math.min(last, Math.max(0, to)));
    });
    for (const button of figure.querySelectorAll("[data-scale]")) {
      button.addEventListener("click", () => {
        scale = button.dataset.scale;
        for (const other of figure.querySelectorAll("[data-scale]")) {
          other.setAttribute("aria-pressed", String(other === button));
        }
        draw();
      });
    }
    const table = figure.querySelector(".as-table");
    table.addEventListener("toggle", () => {
      const rows = kind.bars.map((bar) => make("tr", {},
        make("th", {scope: "row"}, ordinals(bar)), make("td", {}, summary(bar)), make("td", {}, phases(kind, bar))));
      const head = ["Steps", "Time", "Phases"].map((text) => make("th", {scope: "col"}, text));
      table.querySelector(".scroll").replaceChildren(
        make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
    });
    draw();
    let width = place.clientWidth;
    new ResizeObserver(() => {
      if (place.clientWidth !== width) {
        width = place.clientWidth;
        draw();
      }
    }).observe(place);
  }

  // --- memory --------------------------------------------------------------------------------------------------------

  const memory = document.querySelector("figure.memory .chart");
  if (memory) {
    const series = [["resident", 1, "--xla-compile"], ["device", 2, "--execute"]]
      .filter(([, column]) => data.memory.some((row) => row[column] !== null));
    memory.append(Plot.plot({
      width: Math.max(280, memory.clientWidth),
      height: 200,
      marginLeft: 64,
      style: {fontFamily: "inherit", fontSize: "12px"},
      x: {label: null, tickFormat: duration},
      y: {label: null, tickFormat: bytes, grid: true, zero: true},
      marks: series.flatMap(([name, column, colour]) => [
        Plot.lineY(data.memory, {
          x: (row) => row[0], y: (row) => row[column], stroke: `var(${colour})`, strokeWidth: 2, curve: "step-before",
        }),
        Plot.text(data.memory, Plot.selectLast({
          x: (row) => row[0], y: (row) => row[column], text: () => name, dy: -9, textAnchor: "end", fill: `var(${colour})`,
        })),
      ]),
      ariaLabel: "Memory over the run",
    }));
  }

  // --- tables --------------------------------------------------------------------------------------------------------

  // A column: its title, where its cell is, what it is sorted by, and how it is shown.
  const TABLES = {
    compiles: {
      noun: "compile",
      columns: [
        ["Function", 1], ["Stack", 2], ["Origin", 3], ["Where", 4, 4, null, "where"], ["When", 5, 6],
        ["Time", 7, 7, duration, "number"], ["Why", 8], ["Outcome", 9],
      ],
      sorted: 5,
      details: 10,
    },
    breaks: {
      noun: "graph break",
      columns: [
        ["Kind", 1], ["Function", 2], ["Where", 3, 3, null, "where"], ["First seen", 4, 5],
        ["Times", 6, 6, String, "number"], ["Compiles", 7, 7, String, "number"], ["Cost", 8, 8, duration, "number"],
      ],
      sorted: 6,
      details: 9,
    },
  };
  const FIRST = 25;
  const MORE = 250;
  const compare = new Intl.Collator("en", {numeric: true}).compare;

  class DataTable {
    constructor(section, {noun, columns, sorted, details}, {rows, more}) {
      this.noun = noun;
      this.columns = columns;
      this.details = details;
      this.cost = columns[sorted][1];
      this.kind = details + 1; // the same number in rows that are alike
      this.rows = rows;
      this.kinds = new Set(rows.map((row) => row[this.kind])).size;
      this.unfolded = new Set();
      this.sort = {column: sorted, descending: true};
      this.query = "";
      this.limit = FIRST;
      if (!rows.length) {
        section.append(make("p", {}, "None."));
        return;
      }
      const id = `search-${section.id}`;
      this.input = make("input", {type: "search", id, placeholder: "function, file, cause …"});
      this.status = make("span", {class: "dim", role: "status"});
      this.every = make("button", {type: "button", "aria-pressed": "false"}, "each by itself");
      this.every.hidden = this.kinds === rows.length;
      this.every.addEventListener("click", () => this.unfold(this.every.getAttribute("aria-pressed") === "false"));
      this.body = make("tbody");
      this.heads = columns.map(([title, , , , kind], index) => {
        const button = make("button", {type: "button"}, title);
        button.addEventListener("click", () => this.sortBy(index));
        return make("th", {scope: "col", class: kind ?? null}, button);
      });
      this.show = make("button", {type: "button", class: "show"});
      section.append(
        make("div", {class: "tools"}, make("label", {for: id}, "Search"), this.input, this.status, this.every),
        make("div", {class: "wide"}, make("table", {}, make("thead", {}, make("tr", {}, ...this.heads)), this.body)),
        this.show,
        make("p", {class: "dim"}, more ? `${more}; coldstep report --format json has them all.` : ""));
      this.input.addEventListener("input", () => {
        this.query = this.input.value.trim().toLowerCase();
        this.limit = FIRST;
        this.draw();
      });
      this.show.addEventListener("click", () => {
        this.limit += MORE;
        this.draw();
      });
      this.texts = new Map();
      this.draw();
    }

    sortBy(column) {
      const numeric = this.columns[column][4] === "number";
      this.sort = {column, descending: this.sort.column === column ? !this.sort.descending : numeric};
      this.draw();
    }

    unfold(all) {
      this.every.setAttribute("aria-pressed", String(all));
      this.unfolded = new Set(all ? this.rows.map((row) => row[this.kind]) : []);
      this.draw();
    }

    text(row) {
      let text = this.texts.get(row);
      if (text === undefined) {
        text = row.flat(3).filter((cell) => typeof cell === "string").join("\n").toLowerCase();
        this.texts.set(row, text);
      }
      return text;
    }

    // Rows in their order, those that are alike together; who searches is after each of them.
    found() {
      const [, cell, by = cell] = this.columns[this.sort.column];
      const sign = this.sort.descending ? -1 : 1;
      const order = (a, b) => (typeof a[by] === "number" ? a[by] - b[by] : compare(a[by], b[by]));
      const rows = this.query ? this.rows.filter((row) => this.text(row).includes(this.query)) : this.rows.slice();
      const found = new Map();
      for (const row of rows.sort((a, b) => sign * order(a, b))) {
        const key = this.query || this.unfolded.has(row[this.kind]) ? row : row[this.kind];
        if (found.has(key)) found.get(key).push(row);
        else found.set(key, [row]);
      }
      return [...found.values()];
    }

    draw() {
      const found = this.found();
      this.heads.forEach((head, index) => {
        if (index !== this.sort.column) head.removeAttribute("aria-sort");
        else head.setAttribute("aria-sort", this.sort.descending ? "descending" : "ascending");
      });
      this.body.replaceChildren(...found.slice(0, this.limit).map(([row, ...others]) => this.line(row, others)));
      const nouns = this.rows.length === 1 ? this.noun : `${this.noun}s`;
      const all = `${this.rows.length.toLocaleString("en")} ${nouns}`;
      const folded = this.rows.length > found.length ? ", those that are alike in one row" : "";
      this.status.textContent = this.query ? `${found.length.toLocaleString("en")} of ${all}` : all + folded;
      const hidden = found.length - this.limit;
      this.show.hidden = hidden <= 0;
      this.show.textContent = `Show ${Math.min(MORE, hidden)} more`;
    }

    line(row, others) {
      const cells = this.columns.map(([, cell, , format, kind], index) => {
        const text = format ? format(row[cell]) : row[cell];
        if (index || !row[this.details]) return make("td", {class: kind ?? null}, text);
        const button = make("button", {type: "button", "aria-expanded": "false"}, text || "without a name");
        button.addEventListener("click", () => this.open(line, row));
        return make("td", {}, button);
      });
      if (others.length) {
        const costs = others.map((other) => other[this.cost]);
        const [low, high, all] = [d3.min(costs), d3.max(costs), sum(costs)].map(duration);
        const range = sum(costs) ? `: ${low} to ${high}, ${all} in all` : "";
        const number = others.length.toLocaleString("en");
        const more = make("button", {type: "button", class: "like"}, `and ${number} like it${range}`);
        more.addEventListener("click", () => {
          this.unfolded.add(row[this.kind]);
          this.draw();
        });
        cells[0].append(more);
      }
      const line = make("tr", {"data-id": row[0]}, ...cells);
      return line;
    }

    open(line, row) {
      const button = line.querySelector("button");
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) {
        line.nextElementSibling.remove();
        return;
      }
      const facts = row[this.details].map(([label, texts]) => make("div", {class: "fact"},
        make("dt", {}, label), make("dd", {}, ...texts.map((text) => make("p", {class: "mono"}, text)))));
      line.after(make("tr", {class: "more"},
        make("td", {colspan: this.columns.length}, make("dl", {class: "facts"}, ...facts))));
    }

    seek(id) {
      this.query = this.input.value = "";
      this.unfolded.add(this.rows.find((row) => row[0] === id)?.[this.kind]);
      const at = this.found().findIndex(([row]) => row[0] === id);
      if (at < 0) return;
      this.limit = Math.max(this.limit, at + 1);
      this.draw();
      const line = this.body.children[at];
      line.classList.add("sought");
      const button = line.querySelector("button");
      button?.click();
      (button ?? this.input).focus();
      line.scrollIntoView({block: "center"});
    }
  }

  const tables = {};
  for (const section of document.querySelectorAll("[data-table]")) {
    const name = section.dataset.table;
    tables[name] = new DataTable(section, TABLES[name], data[name]);
  }
  for (const link of document.querySelectorAll("a[data-row]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      tables.compiles.seek(link.dataset.row);
    });
  }

  // --- on paper ------------------------------------------------------------------------------------------------------

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("#findings details:not([open])")];
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
  });
})();
