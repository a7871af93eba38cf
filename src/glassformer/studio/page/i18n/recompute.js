import * as shared from "../attention.js";

export const en = {
  ...shared.en,
  gate: "Gate", row: "Row", column: "Column",
  recomputeHint: "One number of the model, made again by hand: its formula, what goes into it, and what comes out, in float64.",
  cellsOf: "{0}. Arrow keys move the cell.", allNumbers: "all {0} numbers",
  valueHere: "recomputed, float64", valueModel: "the model's own", difference: "error", holds: "holds", BREACH: "BREACH", "carried on": "carried on", "-": "–",
  cellLooks: "How much {0} looks at {1}", cellWrites: "How much {0} looks at {1} when it is written", cellUnit: "{0}, unit {1}, at {2}",
  steps: "All steps", step: "step", formula: "formula", shape: "shape", largestError: "largest error", verdict: "verdict", timesFolded: "× {0}", unfold: "Show all {0}",
  stepsWhole: "{0} kinds of steps, recomputed from the ids on; errors up to {1} hold. A name opens the step.",
  stepsPart: "This text is too long to recompute the whole model while you wait. Shown is {0} alone, from what entered it in the model; errors up to {1} hold.",
  fromPart: "from what entered {0} in the model", fromIds: "from the ids on", unused: "No step uses: {0}", moreSteps: "Show all {0} rows", noNumbers: "This step is shown whole: it is not made number by number.",
  recomputing: "Recomputing in float64…", wholeStep: "the whole step, beginning with {0} of {1} numbers",
};
export const zh = {
  ...shared.zh,
  gate: "门", row: "行", column: "列",
  recomputeHint: "把模型的一个数手工重算一遍：公式、代入的数、得到的值，均为 float64。",
  cellsOf: "{0}。方向键移动格子。", allNumbers: "全部 {0} 个数",
  valueHere: "重算值，float64", valueModel: "模型自己的值", difference: "误差", holds: "成立", BREACH: "不符", "carried on": "前步所致", "-": "–",
  cellLooks: "{0} 看向 {1} 的程度", cellWrites: "写出 {0} 时看向 {1} 的程度", cellUnit: "{0}，单元 {1}，位置 {2}",
  steps: "所有步骤", step: "步骤", formula: "公式", shape: "形状", largestError: "最大误差", verdict: "结论", timesFolded: "× {0}", unfold: "展开全部 {0} 个",
  stepsWhole: "共 {0} 类步骤，从编号开始重算；误差不超过 {1} 即成立。点名称打开该步骤。",
  stepsPart: "文本太长，无法当场重算整个模型。这里只从模型中实际进入 {0} 的数开始重算这一部分；误差不超过 {1} 即成立。",
  fromPart: "从模型中进入 {0} 的数开始", fromIds: "从编号开始", unused: "没有步骤用到：{0}", moreSteps: "显示全部 {0} 行", noNumbers: "这一步只能整体显示，不能逐个数地重算。",
  recomputing: "正在以 float64 重算……", wholeStep: "整个步骤，共 {1} 个数，先显示 {0} 个",
};
