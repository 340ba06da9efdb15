// The curves of a forecast: compiles against padding, a point per plan. All data is put in as text.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const place of document.querySelectorAll("[data-curve]")) {
    const plans = data[Number(place.dataset.curve)].filter((plan) => plan.compiles !== null);
    if (!plans.length) continue;
    const most = Math.max(...plans.map((plan) => plan.compiles));
    const every = Math.ceil(most / 12);
    const named = plans.filter((plan) => plan.chosen || !/^\d+ sizes/.test(plan.title));
    const padded = plans.filter((plan) => plan.title !== "as it is" && plan.title !== "marked dynamic");
    place.append(Plot.plot({
      width: 820,
      height: 300,
      marginLeft: 56,
      marginTop: 30,
      marginRight: 90,
      style: {background: "none", fontSize: "12px"},
      ariaLabel: "Compiles against padding, a point per plan",
      x: {label: "compiles", grid: true, ticks: Array.from({length: Math.floor(most / every)}, (_, at) => (at + 1) * every), tickFormat: "d"},
      y: {label: "% of the work is padding", grid: true, zero: true},
      marks: [
        Plot.line(padded, {x: "compiles", y: "padding", stroke: "var(--dim)"}),
        Plot.dot(plans, {x: "compiles", y: "padding", r: (plan) => (plan.chosen ? 7 : 4), fill: (plan) => (plan.chosen ? "var(--good)" : "var(--link)")}),
        Plot.text(named, {x: "compiles", y: "padding", text: "title", dx: 10, dy: -4, textAnchor: "start", fill: "currentColor"}),
        Plot.tip(plans, Plot.pointer({x: "compiles", y: "padding", title: (plan) =>
          `${plan.title}\n${plan.compiles} compiles, ${plan.padding.toFixed(0)} % padding` +
          (plan.total === null ? "" : `\n${plan.total.toFixed(1)} s in all`)})),
      ],
    }));
  }
})();
