// All screens share one list of words, so these carry the screen's name.
const own = (words) => Object.fromEntries(Object.entries(words).map(([key, text]) => [`train.${key}`, text]));

export const en = own({
  noRuns: "There is no run yet", noRunsFix: "A run in the folder {0} shows up here as soon as it begins. For example, in another terminal:",
  runsIn: "Runs in the folder {0}, and models that have a run of their own", inEpoch: "{0}, epoch {1} of {2}", show: "show", runName: "run", task: "task", startedFrom: "model", state: "state", step: "step", best: "best", lastLoss: "loss", changed: "last line",
  running: "running", done: "done", stopped: "stopped", ofSteps: "{0} of {1}", atStep: "{0} {1} at step {2}",
  chooseRuns: "Tick a run above to see its curves.", noRows: "{0} has written no line yet; the first comes after a few steps.",
  goOn: "{0} was stopped. Go on with it:", missingRun: "There is no run {0} any more.",
  loss: "Loss", score: "Score", rate: "Learning rate", norm: "Gradient norm", training: "training", development: "dev (dashed)",
  smoothing: "Smoothing", logarithmic: "Logarithmic axis", curveKeys: "{0}: arrow keys move from step to step",
  saveCsv: "Save as CSV", quiet: "The server does not answer; trying again…", atThatStep: "step {0}",
});
export const zh = own({
  noRuns: "还没有训练记录", noRunsFix: "文件夹 {0} 里的训练一开始就会显示在这里。例如，在另一个终端里输入：",
  runsIn: "文件夹 {0} 中的训练，以及带有训练记录的模型", inEpoch: "{0}，第 {1} / {2} 轮", show: "显示", runName: "名称", task: "任务", startedFrom: "模型", state: "状态", step: "步数", best: "最佳得分", lastLoss: "损失", changed: "最近记录",
  running: "进行中", done: "已完成", stopped: "已停止", ofSteps: "{0} / {1}", atStep: "{0} {1}（第 {2} 步）",
  chooseRuns: "请在上面勾选一个训练来查看曲线。", noRows: "{0} 还没有写下记录；再过几步就有第一行。",
  goOn: "{0} 已停止。继续训练：", missingRun: "训练 {0} 已经不在了。",
  loss: "损失", score: "得分", rate: "学习率", norm: "梯度范数", training: "训练", development: "开发集（虚线）",
  smoothing: "平滑", logarithmic: "对数坐标", curveKeys: "{0}：用方向键逐步移动",
  saveCsv: "保存为 CSV", quiet: "服务器没有应答，正在重试……", atThatStep: "第 {0} 步",
});
